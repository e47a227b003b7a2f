"""Norms over the nodes of each graph: MeanNorm, PairNorm, PairNorm-SI, GraphNorm and ContraNorm."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.ranges import NonNegative, Positive
from gnn_depth.registry import register

# PyTorch Geometric's value. Identical nodes stay identical, and gradients stay below scale /
# sqrt(EPS).
EPS = 1e-5
#: Added to squared lengths.
EPS_OF_LENGTHS = 1e-12


@register("norm", "mean")
class MeanNorm(FeatureNorm):
    r"""Mean subtraction: subtract the mean over all nodes from every node.

    .. math:: \tilde x_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Yang et al., *Revisiting "Over-smoothing" in Deep GCNs*, 2020.
    PyTorch Geometric's MeanSubtractionNorm is the same, but its sums overflow in half precision.
    """

    homogeneous = True
    takes_shards = True

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        return (wide - graph_mean(wide, graph)).to(x.dtype)


@register("norm", "pair")
class PairNorm(FeatureNorm):
    r"""PairNorm: centre the nodes, then hold their total pairwise distance constant.

    .. math::
        \tilde x_i = s \, x^c_i / \sqrt{\epsilon + \tfrac1N \sum_j \|x^c_j\|^2}, \quad
        x^c_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Zhao & Akoglu, *PairNorm*, ICLR 2020.

    Args:
        channels: Width of the node features.
        scale: s, the root mean square of the nodes' norms in the output.
    """

    takes_shards = True

    def __init__(self, channels: int, scale: Positive = 1.0) -> None:
        super().__init__(channels)
        self.scale = scale

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        centred = wide - graph_mean(wide, graph)
        square = self._compared(centred.square().sum(-1, keepdim=True), graph)
        return (self.scale * centred / (square + EPS).sqrt()).to(x.dtype)

    def _compared(self, squares: Tensor, graph: Graph) -> Tensor:
        """The square of the divisor of each node, from the squared norms of all."""
        return graph_mean(squares, graph)


@register("norm", "pair_si")
class PairNormSI(PairNorm):
    r"""PairNorm-SI: centre the nodes, then scale each of them to the same norm.

    .. math::
        \tilde x_i = s \, x^c_i / \sqrt{\epsilon + \|x^c_i\|^2}, \quad
        x^c_i = x_i - \tfrac1N \sum_j x_j

    over the N nodes of each graph. Zhao & Akoglu, *PairNorm*, ICLR 2020, PairNorm-SI. A node at the
    mean becomes zero. As in their code, epsilon is under the root.

    Args:
        channels: Width of the node features.
        scale: s, the norm of each node in the output.
    """

    def _compared(self, squares: Tensor, graph: Graph) -> Tensor:
        return squares


@register("norm", "graph")
class GraphNorm(FeatureNorm):
    r"""GraphNorm: subtract a learned part of each channel's mean, and bring it to unit size.

    .. math::
        \tilde x_i = \gamma \odot \frac{x^c_i}{\sqrt{\tfrac1N \sum_j (x^c_j)^2 + \epsilon}} + \beta,
        \qquad x^c_i = x_i - \alpha \odot \tfrac1N \sum_j x_j

    for each channel, over the N nodes of each graph. The learned alpha, gamma and beta start at 1,
    1 and 0. Cai et al., *GraphNorm*, ICML 2021.

    Args:
        channels: Width of the node features.
    """

    takes_shards = True

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.alpha = nn.Parameter(torch.ones(channels))
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Features, graph: Graph) -> Features:
        # PyTorch Geometric scatters all nodes into one row for a single graph: 1.8 times as long on
        # Cora.
        wide = widen(x)
        centred = wide - self.alpha * graph_mean(wide, graph)
        size = (graph_mean(centred.square(), graph) + EPS).sqrt()
        return (self.gamma * centred / size + self.beta).to(x.dtype)


@register("norm", "contra")
class ContraNorm(FeatureNorm):
    r"""ContraNorm: move each node away from the nodes that are similar to it, then a layer norm.

    .. math::
        S_{i\cdot} = \mathrm{softmax}_{j \notin N(i)} \big( \cos(x_i, x_j) / \tau \big), \qquad
        \tilde x_i = \mathrm{LN}\Big( (1 + s) x_i - s \sum_j S_{ij} x_j \Big)

    over the nodes of the same graph that send no edge to i, and i itself. It takes time and memory
    of nodes x nodes. Guo, Wang, Du & Wang, *ContraNorm: A Contrastive Learning Perspective on
    Oversmoothing and Beyond*, ICLR 2023. The layer norm has no parameters.

    Args:
        channels: Width of the node features.
        scale: s, how far a node is moved; larger for deeper networks.
        temperature: Tau.
    """

    def __init__(
        self, channels: int, scale: NonNegative = 0.5, temperature: Positive = 1.0
    ) -> None:
        super().__init__(channels)
        self.scale = scale
        self.temperature = temperature

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        # Rows of zeros have no direction. EPS_OF_LENGTHS keeps their gradient finite.
        length = (wide.square().sum(1, keepdim=True) + EPS_OF_LENGTHS).sqrt()
        direction = wide / length
        similarity = direction @ direction.t() / self.temperature
        left_out = graph.once("contra", lambda: _left_out(graph))
        similarity = similarity.masked_fill(left_out, -torch.inf)
        pushed = (1 + self.scale) * wide - self.scale * (similarity.softmax(1) @ wide)
        return F.layer_norm(pushed, (self.channels,)).to(x.dtype)


def _left_out(graph: Graph) -> Tensor:
    """True for pairs (target, source) of different graphs, and of neighbours."""
    size = (graph.num_nodes, graph.num_nodes)
    left_out = torch.zeros(size, dtype=torch.bool, device=graph.device)
    left_out[graph.target, graph.source] = True
    # Nodes of other graphs are no negatives either: each graph of a batch is as it is alone.
    if graph.node_to_graph is not None:
        left_out |= graph.node_to_graph[:, None] != graph.node_to_graph
    # Not by fill_diagonal_, which torch.export does not know.
    itself = torch.arange(graph.num_nodes, device=graph.device)
    left_out[itself, itself] = False
    return left_out
