"""Residual connections with a learned scale that starts at or near zero: ReZero and LayerScale."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.nn.skips.options import project, projection_chain
from gnn_depth.ranges import Finite
from gnn_depth.registry import register


class _Scaled(Skip):
    """Residual connections with a learned scale: X + scale * F(X).

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        scale: Its initial value.
    """

    adds = "input"
    invertible = True
    treats = (
        "dying_signal",
        "equal_rows",
        "rank_collapse",
        "exploding_signal",
        "vanishing_gradients",
        "expanding_gradients",
        "smoothed_gradients",
        "non_finite",
    )

    def __init__(self, widths: list[int], out_channels: int, scale: Float[Tensor, "_"]) -> None:
        super().__init__(widths, out_channels)
        self.scale = nn.Parameter(scale)
        self.project = project(widths[-1], out_channels)

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        return self.project(states[-1]) + self.scale * update

    def weight_chain(self) -> WeightChain:
        return projection_chain(self.project)


@register("skip", "rezero")
class ReZero(_Scaled):
    r"""ReZero: add the layer's output, multiplied by a learned number, to its input.

    .. math:: X^{l+1} = X^l + \alpha F(X^l)

    With :math:`\alpha = 0`, a stack of any depth starts as encoder and decoder alone. If the widths differ, the input
    passes a linear map without bias first.
    Bachlechner et al., *ReZero is All You Need*, UAI 2021.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of alpha.

    Raises:
        ValueError: The initial value is infinite or not a number.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 0.0) -> None:
        super().__init__(widths, out_channels, torch.full((1,), float(initial)))


@register("skip", "layer_scale")
class LayerScale(_Scaled):
    r"""LayerScale: add the layer's output, each channel multiplied by a learned number, to its input.

    .. math:: X^{l+1} = X^l + F(X^l) \, \mathrm{diag}(\lambda)

    If the widths differ, the input passes a linear map without bias first.
    Touvron et al., *Going Deeper with Image Transformers*, ICCV 2021. They start at 0.1 for up to 18 layers, at 1e-5
    for 24 and at 1e-6 for more.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of every entry of lambda.

    Raises:
        ValueError: The initial value is infinite or not a number.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 1e-5) -> None:
        super().__init__(widths, out_channels, torch.full((out_channels,), float(initial)))
