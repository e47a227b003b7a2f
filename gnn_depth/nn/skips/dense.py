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

    So every layer, and the decoder, sees the outputs of all layers before it and the first state. The width grows with
    each layer by that of its output, memory and weights with the square of the depth.
    Huang et al., *Densely Connected Convolutional Networks*, CVPR 2017; of graphs Li et al., *DeepGCNs*, ICCV 2019.

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
