"""No skip connection."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip
from gnn_depth.registry import register


@register("skip", "none")
class NoSkip(Skip):
    r"""No skip connection: pass on only the layer's output, :math:`X^{l+1} = F(X^l)`.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    reads = "nothing"

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        return update
