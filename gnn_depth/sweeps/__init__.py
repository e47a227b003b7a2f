"""Sweeps: run every combination of a grid file on a pool of workers, each once, without losing
results."""
