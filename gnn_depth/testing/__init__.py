"""For authors of parts: what every part of a kind is expected to do, checked in one call.

::

    from gnn_depth.testing import check_norm

    def test_my_norm_conforms():
        check_norm(MyNorm, scale=2.0)

All that fails is told in one error: which property, on which input, by how much, and what to do about it. A property
that a part lacks by intent is named: ``check_norm(BatchNorm, except_for=("batch",))``. A check takes about a second.
"""

from gnn_depth.testing.graph_dropouts import check_graph_dropout
from gnn_depth.testing.inits import check_init
from gnn_depth.testing.parts import check_layer, check_norm, check_skip
from gnn_depth.testing.suite import NotConforming

__all__ = ["NotConforming", "check_graph_dropout", "check_init", "check_layer", "check_norm", "check_skip"]
