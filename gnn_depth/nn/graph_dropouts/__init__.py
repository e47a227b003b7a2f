"""Graph dropouts, one per file: they drop edges or nodes of the graph in training.

A new one subclasses GraphDropout, says ``@register("graph_dropout", name)``, and is imported here.
"""

from gnn_depth.nn.graph_dropouts.edges import DropEdge
from gnn_depth.nn.graph_dropouts.nodes import DropNode
from gnn_depth.nn.graph_dropouts.none import NoGraphDropout

__all__ = ["DropEdge", "DropNode", "NoGraphDropout"]
