"""What turns the features of a data set into those that the layers see."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from torch import nn

from gnn_depth.nn.embedding import Embedding
from gnn_depth.nn.linear import Linear

Encoder: TypeAlias = Literal["linear", "embedding", "none"]


def make_encoder(encoder: Encoder, in_channels: int | Sequence[int], hidden_channels: int) -> tuple[nn.Module, int]:
    """An encoder, and the width of what it gives.

    Args:
        encoder: Which one.
        in_channels: Width of the features; of integer features, the number of values of each column.
        hidden_channels: Width of a linear map's or an embedding's output.

    Raises:
        ValueError: The encoder does not take such features.
    """
    if isinstance(in_channels, int):
        if encoder == "embedding":
            raise ValueError("encoder embedding is for integer features, and these are numbers: take linear or none.")
        linear = encoder == "linear"
        return (Linear(in_channels, hidden_channels), hidden_channels) if linear else (nn.Identity(), in_channels)
    if encoder != "embedding":
        raise ValueError(f"the features are {len(in_channels)} columns of integers: take encoder embedding.")
    return Embedding(in_channels, hidden_channels), hidden_channels
