"""Batch normalisation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import graph_mean, widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Positive, Probability
from gnn_depth.registry import register


@register("norm", "batch")
class BatchNorm(FeatureNorm):
    r"""Batch norm: bring each channel to mean 0 and variance 1 over all nodes, then scale and shift it.

    .. math:: \tilde x_{ic} = \gamma_c \frac{x_{ic} - \mu_c}{\sqrt{\sigma_c^2 + \epsilon}} + \beta_c

    where mu and sigma are computed over the nodes of the step in training. Evaluation uses their running averages.
    Ioffe & Szegedy, *Batch Normalization*, ICML 2015; computed by :class:`torch.nn.BatchNorm1d`.

    Args:
        channels: Width of the node features.
        eps: Added to the variance.
        momentum: Weight of the newest step in the running averages.
        affine: Learn gamma and beta.
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse", "exploding_signal")
    takes_shards = True

    def __init__(self, channels: int, eps: Positive = 1e-5, momentum: Probability = 0.1, affine: bool = True) -> None:
        super().__init__(channels)
        self.norm = nn.BatchNorm1d(channels, eps=eps, momentum=momentum, affine=affine)

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        if self.training and graph.is_shard:
            return self._over_shards(x, graph)
        if self.training and len(x) == 1:  # torch raises an error; one node is its own mean, so the result is beta
            zero = 0 * x
            return zero if self.norm.bias is None else (zero + self.norm.bias).to(x.dtype)
        return self.norm(x)

    def _over_shards(self, x: Tensor, graph: Graph) -> Tensor:
        wide, norm, nodes = widen(x), self.norm, graph.total_nodes
        mean = graph_mean(wide, graph)
        variance = graph_mean((wide - mean).square(), graph)
        with torch.no_grad():
            assert norm.num_batches_tracked is not None
            norm.num_batches_tracked.add_(1)
            unbiased = variance * (nodes / max(nodes - 1, 1))
            for running, here in ((norm.running_mean, mean), (norm.running_var, unbiased)):
                assert running is not None
                running.lerp_(here[0].to(running.dtype), norm.momentum or 0.0)
        out = (wide - mean) * (variance + norm.eps).rsqrt()
        return (out if norm.weight is None else out * norm.weight + norm.bias).to(x.dtype)
