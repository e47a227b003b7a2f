"""Graph dropouts: they drop edges, nodes or entries of messages in training.

To add one, subclass GraphDropout and decorate it with ``@register("graph_dropout", name)``.
"""

import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import GraphDropout
from gnn_depth.ranges import Probability
from gnn_depth.registry import register


@register("graph_dropout", "none")
class NoGraphDropout(GraphDropout):
    """No graph dropout: keep the whole graph."""

    takes_shards = True

    def __init__(self) -> None:
        super().__init__(0.0)

    def __call__(self, graph: Graph) -> Graph:
        return graph


@register("graph_dropout", "drop_edge")
class DropEdge(GraphDropout):
    """DropEdge: drop every edge with probability p.

    Rong et al., *DropEdge: Towards Deep Graph Convolutional Networks on Node Classification*, ICLR
    2020. They drop a fixed fraction of the edges; here each edge is dropped independently.

    Args:
        p: Probability of dropping an edge.
        undirected: Drop an edge and its reverse together, so that an undirected graph stays
            undirected.

    Raises:
        ValueError: p is not a probability; in training, ``undirected`` is set and some edge has no
            reverse.
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
                    "undirected of graph_dropout 'drop_edge' needs edges that all go both ways, "
                    "and in this graph some go one way: use undirected false."
                )
            # Both directions of an edge get the number drawn for the earlier one.
            drawn = drawn[torch.minimum(graph.edge_ids, graph.reverse)]
        return graph.keeping(drawn >= self.p)


@register("graph_dropout", "drop_node")
class DropNode(GraphDropout):
    """DropNode: drop all edges from and to a node, with probability p per node.

    A dropped node is isolated: it still has an output, computed from its own features, and the loss
    may read it. Do et al., *Graph Convolutional Neural Networks with Node Transition
    Probability-based Message Passing and DropNode Regularization*, Expert Systems with Applications
    2021. They also leave dropped nodes out of the loss.
    """

    takes_shards = True

    def __call__(self, graph: Graph) -> Graph:
        if self.p == 0:
            return graph
        # One number for a node, whether it sends or receives: the targets are the first sources.
        stays = graph.draw_sources() >= self.p
        return graph.keeping(stays[graph.source] & stays[graph.target])


@register("graph_dropout", "drop_message")
class DropMessage(GraphDropout):
    r"""DropMessage: drop every entry of every message with probability p.

    .. math:: x'_i = \sum_{j \to i} \frac{1}{1 - p} \, \epsilon_{ij} \odot (a_{ij} h_j), \quad
        \epsilon_{ijk} \sim \mathrm{Bernoulli}(1 - p)

    where :math:`a_{ij} h_j` is the message along an edge: a weight times the neighbour's state, as
    the layer sends it, after its linear map if it has one. Each layer draws its own entries, those
    of self-loops that it adds included; degrees are those of the whole graph. Of all random
    dropping of edges, nodes and features it has the least variance. Fang et al., *DropMessage:
    Unifying Random Dropping for Graph Neural Networks*, AAAI 2023. A training pass needs a tensor
    of edges x channels. Layers say whether they do it (``drops_messages``), and stacks refuse
    others.
    """

    takes_shards = True
    of_messages = True

    def __call__(self, graph: Graph) -> Graph:
        if self.p == 0:
            return graph
        return graph.dropping_messages(self.p)


@register("graph_dropout", "drop_sens")
class DropSens(GraphDropout):
    r"""DropSens: drop the edges into a node with a probability that grows with its degree.

    An edge into a node with d incoming edges is dropped with probability :math:`\min(p^{1/d},
    0.5)`; self-loops are kept and do not count in d. So a node of few neighbours keeps the
    sensitivity to each of them that it loses with :class:`DropEdge`. Ghosh et al., *Effects of
    Dropout on Performance in Long-range Graph Learning Tasks*, 2025.

    Args:
        p: The probability for a node of one neighbour. From 0.5 on all edges have the same, and it
            is DropEdge.
    """

    takes_shards = True

    def __init__(self, p: Probability = 0.1) -> None:
        super().__init__(p)

    def __call__(self, graph: Graph) -> Graph:
        if self.p == 0:
            return graph
        # From the degrees before any edge is dropped, so every pass has the same.
        probability = graph.once(("drop_sens", self.p), lambda: self._probabilities(graph))
        is_loop = graph.source == graph.target
        return graph.keeping((graph.draw_edges() >= probability) | is_loop)

    def _probabilities(self, graph: Graph) -> torch.Tensor:
        """The probability of dropping each edge, shape (edges,)."""
        is_proper = (graph.source != graph.target).double()
        degree = is_proper.new_zeros(graph.num_nodes).index_add_(0, graph.target, is_proper)
        of_node = self.p ** degree.clamp_min(1).reciprocal()
        return of_node.clamp_max(0.5)[graph.target]
