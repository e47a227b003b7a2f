"""DropNode."""

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import GraphDropout
from gnn_depth.ranges import Probability
from gnn_depth.registry import register


@register("graph_dropout", "drop_node")
class DropNode(GraphDropout):
    """DropNode: drop all edges from and to a node, with probability p per node.

    A dropped node is isolated: it still has an output, computed from its own features, and the loss may read it.
    Do et al., *Graph Convolutional Neural Networks with Node Transition Probability-based Message Passing and DropNode
    Regularization*, Expert Systems with Applications 2021. They also leave dropped nodes out of the loss.

    Args:
        p: Probability of dropping a node.
    """

    takes_shards = True

    def __init__(self, p: Probability = 0.5) -> None:
        super().__init__(p)

    def __call__(self, graph: Graph) -> Graph:
        if self.p == 0:
            return graph
        stays = graph.draw_sources() >= self.p
        return graph.keeping(stays[graph.source] & stays[graph.target])
