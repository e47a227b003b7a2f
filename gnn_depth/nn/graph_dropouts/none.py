"""No graph dropout."""

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import GraphDropout
from gnn_depth.registry import register


@register("graph_dropout", "none")
class NoGraphDropout(GraphDropout):
    """No graph dropout: keep the whole graph."""

    takes_shards = True

    def __init__(self) -> None:
        super().__init__(0.0)

    def __call__(self, graph: Graph) -> Graph:
        return graph
