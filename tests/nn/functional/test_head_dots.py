"""Dot products of heads with vectors of theirs."""

import pytest
import torch

from gnn_depth.nn.functional import head_dots
from gnn_depth.nn.functional.segments import NARROW
from tests.reference import agree


@pytest.mark.parametrize("channels", [1, NARROW - 1, NARROW])
@pytest.mark.parametrize("nodes", [0, 5])
def test_products_and_their_gradients_are_those_of_einsum(nodes, channels):
    x = torch.randn(nodes, 4, channels, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(4, channels, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours = torch.stack(head_dots(x, *vectors))
    expected = torch.stack([torch.einsum("nhc,hc->nh", x, a) for a in vectors])
    agree(ours, expected, [x, *vectors], 1e-12, allow_unused=nodes == 0)
