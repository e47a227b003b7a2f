"""Batch normalisation."""

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
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

    def __init__(self, channels: int, eps: Positive = 1e-5, momentum: Probability = 0.1, affine: bool = True) -> None:
        super().__init__(channels)
        self.norm = nn.BatchNorm1d(channels, eps=eps, momentum=momentum, affine=affine)

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        if self.training and len(x) == 1:  # torch raises an error; one node is its own mean, so the result is beta
            zero = 0 * x
            return zero if self.norm.bias is None else (zero + self.norm.bias).to(x.dtype)
        return self.norm(x)
