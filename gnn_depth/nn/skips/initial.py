"""Residual connection to the first state."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.nn.skips.options import project, projection_chain
from gnn_depth.ranges import Share
from gnn_depth.registry import register


@register("skip", "initial_residual")
class InitialResidual(Skip):
    r"""Initial residual: mix the first state into every layer's output.

    .. math:: X^{l+1} = (1 - \alpha) F(X^l) + \alpha X^0

    The first state is the input of the first layer. If the widths differ, it passes a linear map without bias first;
    each layer has its own map. Chen et al., *Simple and Deep Graph Convolutional Networks*, ICML 2020 (GCNII). They mix
    before the weights and the activation of the layer; here, as with all skip connections, the first state is mixed in
    after them.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        alpha: Weight of the first state; at 1 the layers would have no effect.

    Raises:
        ValueError: alpha is outside [0, 1).
    """

    treats = ("dying_signal", "equal_rows", "rank_collapse")

    reads = "first"
    adds = "first"

    def __init__(self, widths: list[int], out_channels: int, alpha: Share = 0.1) -> None:
        super().__init__(widths, out_channels)
        self.alpha = alpha
        self.project = project(widths[0], out_channels)

    def forward(
        self, update: Float[Tensor, "nodes channels"], states: Sequence[Tensor], graph: Graph
    ) -> Float[Tensor, "nodes outputs"]:
        return (1 - self.alpha) * update + self.alpha * self.project(states[0])

    def weight_chain(self) -> WeightChain:
        return projection_chain(self.project)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"
