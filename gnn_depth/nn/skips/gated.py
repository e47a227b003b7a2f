"""Gated connection."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.nn.skips.options import check_finite, project
from gnn_depth.registry import register


@register("skip", "gated")
class Gated(Skip):
    r"""Gated (highway) connection: a learned gate mixes the layer's output and its input, per node and channel.

    .. math:: X^{l+1} = T \odot F(X^l) + (1 - T) \odot X^l, \qquad T = \sigma(X^l W + b)

    Where the widths differ, the input that is chosen passes a linear map without bias first.
    Srivastava, Greff & Schmidhuber, *Highway Networks*, 2015; of graphs Rahimi, Cohn & Baldwin, *Semi-supervised User
    Geolocation via Graph Convolutional Networks*, ACL 2018.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        bias: Initial value of every entry of b. At first about :math:`1 - \sigma(b)` of a state survives a layer: 0.95
            with -3, so a fifth is left after 32 layers, and 0.73 with -1, so 1 part in 20,000 is left.

    Raises:
        ValueError: The bias is infinite or not a number.
    """

    adds = "input"
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

    def __init__(self, widths: list[int], out_channels: int, bias: float = -3.0) -> None:
        super().__init__(widths, out_channels)
        check_finite("gated", bias=bias)
        self.gate = nn.Linear(widths[-1], out_channels, bias=False)
        # Not the map's own: inits set those of linear maps to zero.
        self.bias = nn.Parameter(torch.full((out_channels,), float(bias)))
        self.project = project(widths[-1], out_channels)

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        opened = torch.sigmoid(self.gate(states[-1]) + self.bias)
        return opened * update + (1 - opened) * self.project(states[-1])

    def weight_chain(self) -> WeightChain:
        projected = (self.project.weight,) if isinstance(self.project, nn.Linear) else ()
        return WeightChain(incoming=projected, outgoing=(*projected, self.gate.weight))
