"""Layer normalisation."""

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Positive
from gnn_depth.registry import register


@register("norm", "layer")
class LayerNorm(FeatureNorm):
    r"""Layer norm: bring each node's features to mean 0 and variance 1, then scale and shift the channels.

    .. math:: \tilde x_i = \gamma \odot \frac{x_i - \mathrm{mean}(x_i)}{\sqrt{\mathrm{var}(x_i) + \epsilon}} + \beta

    Ba, Kiros & Hinton, *Layer Normalization*, 2016; computed by :class:`torch.nn.LayerNorm`.

    Args:
        channels: Width of the node features.
        eps: Added to the variance.
        affine: Learn gamma and beta.
    """

    treats = ("dying_signal", "vanishing_gradients", "exploding_signal")

    nodewise = True

    def __init__(self, channels: int, eps: Positive = 1e-5, affine: bool = True) -> None:
        super().__init__(channels)
        self.norm = nn.LayerNorm(channels, eps=eps, elementwise_affine=affine)

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        return self.norm(x)
