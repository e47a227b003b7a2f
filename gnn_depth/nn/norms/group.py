"""Differentiable group normalisation."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Count, Positive, Probability
from gnn_depth.registry import register


@register("norm", "group")
class DiffGroupNorm(FeatureNorm):
    r"""Differentiable group norm: batch-normalise groups of nodes, and add some of the result to the features.

    .. math::
        \tilde x_i = x_i + \lambda \sum_g \Big( \gamma_g \odot \frac{s_{ig} x_i - \mu_g}{\sqrt{\sigma_g^2 + \epsilon}}
        + \beta_g \Big), \qquad s_i = \mathrm{softmax}(W x_i)

    where mu and sigma are those of :math:`s_{ig} x_i` for each channel, over all nodes of the step in training.
    Evaluation uses their running averages. Zhou et al., *Towards Deeper Graph Neural Networks with Differentiable Group
    Normalization*, NeurIPS 2020.

    Args:
        channels: Width of the node features.
        groups: Number of groups.
        weight: lambda, the factor of the normalised groups.
        eps: Added to the variance.
        momentum: Weight of the newest step in the running averages.

    Raises:
        ValueError: momentum is outside [0, 1], or another option is not positive.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse")
    takes_shards = True

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        channels: int,
        groups: Count = 10,
        weight: Positive = 0.01,
        eps: Positive = 1e-5,
        momentum: Probability = 0.1,
    ) -> None:
        super().__init__(channels)
        self.weight = weight
        self.eps = eps
        self.momentum = momentum
        self.lin = nn.Linear(channels, groups, bias=False)
        self.gamma = nn.Parameter(torch.ones(groups, channels))
        self.beta = nn.Parameter(torch.zeros(groups, channels))
        self.register_buffer("running_mean", torch.zeros(groups, channels))
        self.register_buffer("running_var", torch.ones(groups, channels))

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        # PyTorch Geometric stores several tensors of nodes x groups x channels, and fails for one node in training.
        # But the sum over the groups is x times a mixture of the groups' scales, plus a mixture of their shifts.
        wide = widen(x)
        share = F.linear(wide, self.lin.weight.to(wide.dtype)).softmax(-1)
        mean, variance = self._statistics(wide, share, graph)
        scale = self.gamma * (variance + self.eps).rsqrt()
        shift = (self.beta - scale * mean).sum(0)
        return (wide + self.weight * (wide * (share.to(wide.dtype) @ scale.to(wide.dtype)) + shift)).to(x.dtype)

    def _statistics(self, x: Tensor, share: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        """Mean and variance of share x features, by group and channel."""
        if not self.training:
            return self.running_mean, self.running_var
        # If nodes are similar, the difference of the moments loses many digits; float64 has enough of them.
        wide, share = x.double(), share.double()
        nodes = graph.total_nodes
        mean = graph.all_reduce(share.t() @ wide) / nodes
        variance = (graph.all_reduce(share.square().t() @ wide.square()) / nodes - mean.square()).clamp_min(0)
        mean, variance = mean.to(x.dtype), variance.to(x.dtype)
        self._remember(mean.detach(), variance.detach(), nodes)
        return mean, variance

    def _remember(self, mean: Tensor, variance: Tensor, nodes: int) -> None:
        if nodes > 1:  # one node has no unbiased variance
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            unbiased = variance * (nodes / (nodes - 1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)

    def extra_repr(self) -> str:
        return f"weight={self.weight}"
