"""DropEdge."""

import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import GraphDropout
from gnn_depth.ranges import Probability
from gnn_depth.registry import register


@register("graph_dropout", "drop_edge")
class DropEdge(GraphDropout):
    """DropEdge: drop every edge with probability p.

    Rong et al., *DropEdge: Towards Deep Graph Convolutional Networks on Node Classification*, ICLR 2020. They
    drop a fixed fraction of the edges; here each edge is dropped independently.

    Args:
        p: Probability of dropping an edge.
        undirected: Drop an edge and its reverse together, so that an undirected graph stays undirected.

    Raises:
        ValueError: p is not a probability; in training, ``undirected`` is set and some edge has no reverse.
    """

    def __init__(self, p: Probability = 0.5, undirected: bool = False) -> None:
        super().__init__(p)
        self.undirected = undirected
        self.takes_shards = not undirected  # the reverse of an edge may be elsewhere

    def __call__(self, graph: Graph) -> Graph:
        if self.p == 0:
            return graph
        drawn = graph.draw_edges()
        if self.undirected:
            if graph.reverse is None:
                raise ValueError(
                    "undirected of graph_dropout 'drop_edge' needs edges that all go both ways, and in this graph "
                    "some go one way: use undirected false."
                )
            drawn = drawn[torch.minimum(graph.edge_ids, graph.reverse)]
        return graph.keeping(drawn >= self.p)
