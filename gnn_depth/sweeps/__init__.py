"""Grids of runs: a file says which, the runs share the work, and nothing is run twice or lost."""
