"""Learned tables for integer features."""

import pytest
import torch
from torch.nn.functional import one_hot

from gnn_depth.nn.encoder import Embedding
from tests.reference import agree


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_rows_and_their_gradients_are_those_of_a_product_with_the_one_hot_columns(dtype):
    embedding = Embedding((4, 3, 200), 5).double()
    x = torch.stack([torch.arange(9) % 4, torch.arange(9) % 3, 199 - torch.arange(9) // 2], 1)
    hot = torch.cat(
        [one_hot(column, size) for column, size in zip(x.t(), embedding.sizes, strict=True)], 1
    ).double()
    ours, expected = embedding(x.to(dtype)), hot @ embedding.weight
    agree(ours, expected, [embedding.weight], 1e-12)


@pytest.mark.parametrize("row", [[0, 3], [-1, 0]])
def test_a_value_out_of_its_range_is_an_error_in_every_column(row):
    with pytest.raises(IndexError, match="out of range"):
        Embedding((4, 3), 5)(torch.tensor([row]))
