"""Attack the command line from outside, and compare every number with the same one computed another
way: ``python -m tools.attack [--group NAME] [--examples N] [--seed N]``."""
