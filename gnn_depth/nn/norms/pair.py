"""Norms over the nodes of each graph: MeanNorm, PairNorm, PairNorm-SI and GraphNorm."""

import torch
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.ranges import Positive
from gnn_depth.registry import register

# PyTorch Geometric's value. Identical nodes stay identical, and gradients stay below scale /
# sqrt(EPS).
EPS = 1e-5


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
        eps: Added to the mean square.
    """

    takes_shards = True

    def __init__(self, channels: int, eps: Positive = 1e-5) -> None:
        super().__init__(channels)
        self.eps = eps
        self.alpha = nn.Parameter(torch.ones(channels))
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Features, graph: Graph) -> Features:
        # PyTorch Geometric scatters all nodes into one row for a single graph: 1.8 times as long on
        # Cora.
        wide = widen(x)
        centred = wide - self.alpha * graph_mean(wide, graph)
        size = (graph_mean(centred.square(), graph) + self.eps).sqrt()
        return (self.gamma * centred / size + self.beta).to(x.dtype)
