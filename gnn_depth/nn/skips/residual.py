"""Residual connection."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gnn_depth.nn.parts import Skip
from gnn_depth.nn.skips.options import project
from gnn_depth.registry import register


@register("skip", "residual")
class Residual(Skip):
    r"""Add the layer's input to its output: :math:`X^{l+1} = X^l + F(X^l)`.

    Where the widths differ, the input passes a linear map without bias first.
    He et al., *Deep Residual Learning*, CVPR 2016.

    Args:
        widths: Width of every earlier state, the layer's input last.
        out_channels: Width of the layer's output.
    """

    treats = ("dying_signal", "vanishing_gradients", "smoothed_gradients")

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.project = project(widths[-1], out_channels)

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor]
    ) -> Float[Tensor, "nodes outputs"]:
        return self.project(states[-1]) + update
