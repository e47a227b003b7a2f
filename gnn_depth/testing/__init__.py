"""Conformance suites for authors of parts: check in one call the properties that every part of a
kind must have.

::

    from gnn_depth.testing import check_norm

    def test_my_norm_conforms():
        check_norm(MyNorm, scale=2.0)

One error names every property that fails, the input, the size of the deviation and a remedy. A
property that a part lacks on purpose is excepted: ``check_norm(BatchNorm, except_for=("batch",))``.
A check takes about a second.
"""

from gnn_depth.testing.checks import (
    check_graph_dropout,
    check_init,
    check_layer,
    check_norm,
    check_skip,
)
from gnn_depth.testing.suite import NotConforming

__all__ = [
    "NotConforming",
    "check_graph_dropout",
    "check_init",
    "check_layer",
    "check_norm",
    "check_skip",
]
