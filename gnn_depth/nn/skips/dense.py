"""Dense connections."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip
from gnn_depth.registry import register


@register("skip", "dense")
class Dense(Skip):
    r"""Dense connection: concatenate the layer's output to its input, :math:`X^{l+1} = [X^l, F(X^l)]`.

    Every layer and the decoder read the first state and the outputs of all earlier layers. The width grows with each
    layer, and memory and the number of weights grow with the square of the depth.
    Huang et al., *Densely Connected Convolutional Networks*, CVPR 2017; for graphs Li et al., *DeepGCNs*, ICCV 2019.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.width = widths[-1] + out_channels

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        return torch.cat([states[-1], update], 1)
