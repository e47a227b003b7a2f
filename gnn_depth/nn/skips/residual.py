"""Residual connection."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.nn.skips.options import project, projection_chain
from gnn_depth.registry import register


@register("skip", "residual")
class Residual(Skip):
    r"""Residual connection: add the layer's input to its output, :math:`X^{l+1} = X^l + F(X^l)`.

    If the widths differ, the input passes a linear map without bias first.
    He et al., *Deep Residual Learning*, CVPR 2016.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    adds = "input"
    invertible = True
    treats = ("dying_signal", "vanishing_gradients", "smoothed_gradients")

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.project = project(widths[-1], out_channels)

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        return self.project(states[-1]) + update

    def weight_chain(self) -> WeightChain:
        return projection_chain(self.project)
