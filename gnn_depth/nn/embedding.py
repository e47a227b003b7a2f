"""Learned tables for integer features."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class Embedding(nn.Module):
    r"""The sum of one learned row for every column: :math:`h_i = \sum_c T_c[x_{ic}]`.

    It is a linear map of the one-hot columns; rows are drawn from a standard normal distribution, as in torch.

    Args:
        sizes: How many values each column has, from 0.
        out_channels: Width of a row.
    """

    begin: Tensor

    def __init__(self, sizes: Sequence[int], out_channels: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        # One table below the other, so that one parameter serves all columns.
        self.weight = nn.Parameter(torch.empty(sum(sizes), out_channels))
        ends = torch.tensor(self.sizes).cumsum(0)
        self.register_buffer("begin", ends - torch.tensor(self.sizes), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables anew."""
        nn.init.normal_(self.weight)

    def forward(self, x: Int[Tensor, "nodes columns"]) -> Float[Tensor, "nodes channels"]:
        # embedding_bag is as fast forward, but its backward pass sorts the nodes by value: ten times slower.
        first, *others = (self.weight.index_select(0, column) for column in (x + self.begin).unbind(-1))
        return sum(others, start=first)

    def extra_repr(self) -> str:
        return f"{self.sizes}, {self.weight.shape[1]}"
