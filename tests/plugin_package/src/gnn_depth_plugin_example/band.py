"""A norm of features."""

from torch import Tensor

from gnn_depth import FeatureNorm, Graph, register
from gnn_depth.ranges import Positive


@register("norm", "band")
class BandNorm(FeatureNorm):
    r"""Shorten the features of nodes that are longer than a bound, and leave the others.

    .. math:: \tilde x_i = x_i \min(1, c / \|x_i\|)

    Args:
        channels: Width of the node features.
        bound: c, the largest length.

    Raises:
        ValueError: The bound is not positive.
    """

    nodewise = True

    def __init__(self, channels: int, bound: Positive = 4.0) -> None:
        super().__init__(channels)
        self.bound = bound

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        # The square is held above the bound's before the root, so that zeros have a gradient.
        length = x.square().sum(-1, keepdim=True).clamp_min(self.bound**2).sqrt()
        return x * (self.bound / length)
