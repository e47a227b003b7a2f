"""NodeNorm."""

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.ranges import Positive
from gnn_depth.registry import register


@register("norm", "node")
class NodeNorm(FeatureNorm):
    r"""NodeNorm: divide each node's features by the p-th root of their standard deviation, without centring them.

    .. math:: \tilde x_i = x_i / \sigma_i^{1/p}, \qquad \sigma_i^2 = \mathrm{var}(x_i) + \epsilon

    where the variance is taken over the channels of the node. Zhou et al., *Understanding and Resolving Performance
    Degradation in Deep Graph Convolutional Networks*, CIKM 2021. The default options are those of the authors'
    configuration.

    Args:
        channels: Width of the node features.
        p: The order of the root; 1 divides by the standard deviation, larger values change the features less.
        eps: Added to the variance.

    Raises:
        ValueError: An option is not positive.
    """

    treats = ("dying_signal", "vanishing_gradients", "exploding_signal")

    nodewise = True

    def __init__(self, channels: int, p: Positive = 1.0, eps: Positive = 1e-5) -> None:
        super().__init__(channels)
        self.p = p
        self.eps = eps

    def forward(self, x: Float[Tensor, "nodes channels"], graph: Graph) -> Float[Tensor, "nodes channels"]:
        wide = widen(x)
        variance = wide.var(-1, correction=0, keepdim=True)
        return (wide * (variance + self.eps).pow(-0.5 / self.p)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"
