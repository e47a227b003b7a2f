"""What turns the states of the nodes into their outputs."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.nn.jumping import Jump, jumped_width

Decoder: TypeAlias = Literal["linear", "none"]


def make_decoder(decoder: Decoder, jump: Jump, widths: Sequence[int], out_channels: int) -> nn.Module:
    """A decoder.

    Args:
        decoder: Which one.
        jump: Which of the layers' outputs it reads.
        widths: Their widths; without a linear map the last layer gives the outputs.
        out_channels: Number of outputs of a node.

    Raises:
        ValueError: The outputs do not fit together.
    """
    if decoder == "linear":
        return nn.Linear(jumped_width(jump, widths), out_channels)
    if jump != "last":
        raise ValueError(
            f"jump {jump} needs a decoder, since without one the last layer gives the class scores: take "
            "decoder linear."
        )
    return MeanOfHeads(out_channels)


class MeanOfHeads(nn.Module):
    """Average the concatenated heads of the last layer: (nodes, heads x outputs) to (nodes, outputs)."""

    def __init__(self, out_channels: int) -> None:
        super().__init__()
        self.out_channels = out_channels

    def forward(self, x: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes outputs"]:
        return x.view(x.shape[0], -1, self.out_channels).mean(1)
