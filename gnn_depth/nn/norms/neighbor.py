"""NeighborNorm."""

import torch
from torch import nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, segment_sum, widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.registry import register

EPS = 1e-5  # added to a variance


@register("norm", "neighbor")
class NeighborNorm(FeatureNorm):
    r"""Neighbour norm: normalise each node by the mean and deviation of its neighbourhood.

    .. math::
        \tilde x_i = \gamma \odot \frac{x_i - \mu_i}{\sqrt{\sigma_i^2 + \epsilon}} + \beta, \qquad
        \mu_i = \mathop{\mathrm{mean}}_{j \in N(i) \cup \{i\}} x_j, \qquad
        \sigma_i^2 = \mathop{\mathrm{mean}}_{j \in N(i) \cup \{i\}} (x_j - \mu_i)^2

    for each channel, or with one mean and one deviation for all channels of a neighbourhood. The
    latter is the adjacency-wise normalisation of Chen et al., *Learning Graph Normalization for
    Graph Neural Networks*, 2020.

    N(i) contains the sources of the edges into i; repeated edges count repeatedly, self-loops once.
    With separate channels, a node with one neighbour keeps only the sign of their difference, and a
    node without neighbours becomes beta. The NeighborNorm in the code of LipschitzNorm also treats
    channels separately, but it does not subtract the mean.

    Args:
        channels: Width of the node features.
        per_channel: Compute a mean and a deviation for every channel; false computes one of each
            for all channels.
    """

    takes_shards = True

    def __init__(self, channels: int, per_channel: bool = True) -> None:
        super().__init__(channels)
        self.per_channel = per_channel
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Features, graph: Graph) -> Features:
        wide = widen(x)
        # From the first two moments, because deviations from each target's mean need a tensor of
        # edges x channels. If neighbours are similar, their difference loses many digits; float64
        # has enough of them.
        double = x.double()
        if self.per_channel:
            first, second = double, double.square()
        else:
            first, second = double.mean(-1, True), double.square().mean(-1, True)
        mean = neighbourhood_mean(first, graph)
        variance = (neighbourhood_mean(second, graph) - mean.square()).clamp_min(0)
        out = (wide - mean.to(wide.dtype)) / (variance.to(wide.dtype) + EPS).sqrt()
        return (self.gamma * out + self.beta).to(x.dtype)


def neighbourhood_mean(x: Features, graph: Graph) -> Features:
    """Mean over the sources of the edges into each node, and the node itself."""
    # Without its self-loops, since each node is added once.
    others = (graph.source != graph.target).to(x.dtype)
    total = x + aggregate(others, graph.fetch(x), graph)
    return total / (1 + segment_sum(others[:, None], graph))
