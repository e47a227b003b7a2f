"""Attack the command line from outside: ``python -m tools.attack [--group NAME] [--examples
N]``."""
