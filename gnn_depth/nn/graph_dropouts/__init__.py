"""Graph dropouts, one per file: they drop edges or nodes of the graph in training.

To add one, subclass GraphDropout, decorate it with ``@register("graph_dropout", name)`` and import it here.
"""

from gnn_depth.nn.graph_dropouts.edges import DropEdge
from gnn_depth.nn.graph_dropouts.nodes import DropNode
from gnn_depth.nn.graph_dropouts.none import NoGraphDropout

__all__ = ["DropEdge", "DropNode", "NoGraphDropout"]
