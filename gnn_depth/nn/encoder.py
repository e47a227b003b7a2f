"""Encoders: turn the features of a data set into the first state."""

from collections.abc import Sequence
from functools import reduce
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnn_depth.nn.linear import Linear

Encoder: TypeAlias = Literal["linear", "embedding", "none"]


def make_encoder(
    encoder: Encoder, in_channels: int | Sequence[int], hidden_channels: int
) -> tuple[nn.Module, int]:
    """Make an encoder; return it with the width of its output.

    The widths of integer features are the number of values of each column.
    """
    if not isinstance(in_channels, int):
        if encoder != "embedding":
            raise ValueError(
                f"the features are {len(in_channels)} columns of integers: use encoder embedding."
            )
        return Embedding(in_channels, hidden_channels), hidden_channels
    if encoder == "embedding":
        raise ValueError(
            "encoder embedding needs integer features, but these are not: use linear or none."
        )
    if encoder == "linear":
        # Not torch's: it also takes sparse features.
        return Linear(in_channels, hidden_channels), hidden_channels
    return nn.Identity(), in_channels


class Embedding(nn.Module):
    r"""The sum of one learned row per column: :math:`h_i = \sum_c T_c[x_{ic}]`.

    This is a linear map of the one-hot columns. Rows are drawn from a standard normal distribution,
    as in torch.

    Args:
        sizes: The number of values of each column, from 0.
        out_channels: Width of a row.

    Raises:
        ValueError: Features have another number of columns.
        IndexError: A value is out of the range of its column.
    """

    def __init__(self, sizes: Sequence[int], out_channels: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        # The tables stand one below the other, so that one parameter serves all columns.
        self.weight = nn.Parameter(torch.empty(sum(sizes), out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables."""
        nn.init.normal_(self.weight)

    def forward(self, x: Int[Tensor, "nodes columns"]) -> Float[Tensor, "nodes channels"]:
        if x.shape[-1] != len(self.sizes):
            raise ValueError(
                f"x has {x.shape[-1]} columns, and there are tables for {len(self.sizes)}."
            )
        # Not embedding_bag, whose backward pass sorts the nodes by value and is slow.
        tables = torch.split(self.weight, list(self.sizes))
        columns = zip(tables, x.long().unbind(-1), strict=True)
        # In place: nothing else holds the first rows.
        return reduce(Tensor.add_, (table.index_select(0, column) for table, column in columns))
