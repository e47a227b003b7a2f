"""What ``gnn-depth new`` writes, where MyPart and my_part stand for the names."""

from gnn_depth.cli.templates.parts import PARTS
from gnn_depth.cli.templates.tests import TESTS

KINDS = ("norm", "layer", "init", "skip")

__all__ = ["KINDS", "PARTS", "TESTS"]
