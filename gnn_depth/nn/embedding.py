"""Learned tables for integer features."""

from collections.abc import Sequence
from functools import reduce

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Embedding(nn.Module):
    r"""The sum of one learned row for every column: :math:`h_i = \sum_c T_c[x_{ic}]`.

    It is a linear map of the one-hot columns; rows are drawn from a standard normal distribution, as in torch.

    Args:
        sizes: How many values each column has, from 0.
        out_channels: Width of a row.

    Raises:
        ValueError: Features have another number of columns.
        IndexError: A value is out of the range of its column.
    """

    def __init__(self, sizes: Sequence[int], out_channels: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        # One table below the other, so that one parameter serves all columns.
        self.weight = nn.Parameter(torch.empty(sum(sizes), out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables anew."""
        nn.init.normal_(self.weight)

    def forward(self, x: Int[Tensor, "nodes columns"]) -> Float[Tensor, "nodes channels"]:
        if x.shape[-1] != len(self.sizes):
            raise ValueError(f"x has {x.shape[-1]} columns, and there are tables for {len(self.sizes)}.")
        # embedding_bag is as fast forward, but its backward pass sorts the nodes by value: ten times slower.
        tables, columns = torch.split(self.weight, list(self.sizes)), x.long().unbind(-1)
        first, *others = (table.index_select(0, column) for table, column in zip(tables, columns, strict=True))
        return reduce(Tensor.add_, others, first)  # in its place: no one else has it

    def extra_repr(self) -> str:
        return f"{self.sizes}, {self.weight.shape[1]}"
