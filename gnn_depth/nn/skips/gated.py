"""Gated connection."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.nn.skips.options import project
from gnn_depth.ranges import Finite
from gnn_depth.registry import register


@register("skip", "gated")
class Gated(Skip):
    r"""Gated (highway) connection: a learned gate mixes the layer's output and its input, per node and channel.

    .. math:: X^{l+1} = T \odot F(X^l) + (1 - T) \odot X^l, \qquad T = \sigma(X^l W + b)

    If the widths differ, the input passes a linear map without bias before it is mixed in.
    Srivastava, Greff & Schmidhuber, *Highway Networks*, 2015; for graphs Rahimi, Cohn & Baldwin, *Semi-supervised User
    Geolocation via Graph Convolutional Networks*, ACL 2018.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        bias: Initial value of every entry of b. Initially each layer keeps about :math:`1 - \sigma(b)` of its input.
            With -3 this is 0.95, which leaves a fifth after 32 layers. With -1 it is 0.73, which leaves 1 part in
            20,000.

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

    def __init__(self, widths: list[int], out_channels: int, bias: Finite = -3.0) -> None:
        super().__init__(widths, out_channels)
        self.gate = nn.Linear(widths[-1], out_channels, bias=False)
        # Separate from the linear map, because inits set the biases of linear maps to zero.
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
