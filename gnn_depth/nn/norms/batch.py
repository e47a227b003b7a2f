"""Norms with running averages over the nodes of a batch: BatchNorm and DiffGroupNorm."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm, Features
from gnn_depth.ranges import Count, Positive
from gnn_depth.registry import register

EPS = 1e-5  # added to a variance
MOMENTUM = 0.1  # weight of the newest step in running averages


@register("norm", "batch")
class BatchNorm(FeatureNorm):
    r"""Batch norm: bring each channel to mean 0 and variance 1 over all nodes; scale and shift it.

    .. math:: \tilde x_{ic} = \gamma_c \frac{x_{ic} - \mu_c}{\sqrt{\sigma_c^2 + \epsilon}} + \beta_c

    where mu and sigma are computed over the nodes of the batch in training. Evaluation uses their
    running averages. Ioffe & Szegedy, *Batch Normalization*, ICML 2015; computed by
    :class:`torch.nn.BatchNorm1d`.

    Args:
        channels: Width of the node features.
    """

    takes_shards = True

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: Features, graph: Graph) -> Features:
        if self.training and graph.is_shard:
            return self._over_shards(x, graph)
        if self.training and len(x) == 1:
            # torch raises an error here; one node is its own mean, so the result is beta.
            return (0 * x + self.norm.bias).to(x.dtype)
        return self.norm(x)

    def _over_shards(self, x: Tensor, graph: Graph) -> Tensor:
        # As torch's own, which would see only the rows of this process.
        norm: Any = self.norm
        wide = widen(x)
        nodes = graph.total_nodes
        mean = graph_mean(wide, graph)
        variance = graph_mean((wide - mean).square(), graph)
        with torch.no_grad():
            norm.num_batches_tracked.add_(1)
            unbiased = variance * (nodes / max(nodes - 1, 1))
            for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
                running.lerp_(new[0].to(running.dtype), norm.momentum)
        out = (wide - mean) * (variance + norm.eps).rsqrt()
        return (out * norm.weight + norm.bias).to(x.dtype)


@register("norm", "group")
class DiffGroupNorm(FeatureNorm):
    r"""Differentiable group norm: add the batch norms of soft groups of nodes to the features.

    .. math::
        \tilde x_i = x_i + \lambda \sum_g \Big( \gamma_g \odot
        \frac{s_{ig} x_i - \mu_g}{\sqrt{\sigma_g^2 + \epsilon}}
        + \beta_g \Big), \qquad s_i = \mathrm{softmax}(W x_i)

    where mu and sigma are those of :math:`s_{ig} x_i` for each channel, over all nodes of the batch
    in training. Evaluation uses their running averages. Zhou et al., *Towards Deeper Graph Neural
    Networks with Differentiable Group Normalization*, NeurIPS 2020.

    Args:
        channels: Width of the node features.
        groups: Number of groups.
        weight: lambda, the factor of the normalised groups.
    """

    takes_shards = True
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, groups: Count = 10, weight: Positive = 0.01) -> None:
        super().__init__(channels)
        self.weight = weight
        self.lin = nn.Linear(channels, groups, bias=False)
        self.gamma = nn.Parameter(torch.ones(groups, channels))
        self.beta = nn.Parameter(torch.zeros(groups, channels))
        self.register_buffer("running_mean", torch.zeros(groups, channels))
        self.register_buffer("running_var", torch.ones(groups, channels))

    def forward(self, x: Features, graph: Graph) -> Features:
        # PyTorch Geometric makes tensors of nodes x groups x channels, and fails for one node in
        # training. The sum over the groups equals x times a mixture of their scales, plus the sum
        # of their shifts, which needs none of them.
        wide = widen(x)
        membership = F.linear(wide, self.lin.weight.to(wide.dtype)).softmax(-1)
        mean, variance = self._statistics(wide, membership, graph)
        scale = self.gamma * (variance + EPS).rsqrt()
        shift = (self.beta - scale * mean).sum(0)
        mixture = membership.to(wide.dtype) @ scale.to(wide.dtype)
        return (wide + self.weight * (wide * mixture + shift)).to(x.dtype)

    def _statistics(self, x: Tensor, membership: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """Mean and variance of membership x features, by group and channel."""
        if not self.training:
            return self.running_mean, self.running_var
        # E[x^2] - E[x]^2 loses most of its digits if nodes are similar; float64 has enough of them.
        wide, membership = x.double(), membership.double()
        nodes = graph.total_nodes
        mean = graph.all_reduce(membership.t() @ wide) / nodes
        mean_square = graph.all_reduce(membership.square().t() @ wide.square()) / nodes
        variance = (mean_square - mean.square()).clamp_min(0).to(x.dtype)
        mean = mean.to(x.dtype)
        if nodes > 1:  # one node has no unbiased variance
            self.running_mean.lerp_(mean.detach().to(self.running_mean.dtype), MOMENTUM)
            unbiased = variance.detach() * (nodes / (nodes - 1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), MOMENTUM)
        return mean, variance
