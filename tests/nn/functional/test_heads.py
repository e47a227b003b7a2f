"""Dot products of heads."""

import pytest
import torch

from gnn_depth.nn.functional import head_dots
from gnn_depth.nn.functional.heads import NARROW


@pytest.mark.parametrize("channels", [1, 8, NARROW - 1, NARROW, 20])
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_products_and_their_gradients_are_those_of_a_loop(nodes, heads, channels):
    x = torch.randn(nodes, heads, channels, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(heads, channels, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours = torch.stack(head_dots(x, *vectors))
    loop = [x[i, h] @ a[h] for a in vectors for i in range(nodes) for h in range(heads)]
    expected = torch.stack(loop).view_as(ours) if loop else ours.detach() + 0 * x.sum() + 0 * sum(vectors).sum()
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    direction = torch.randn_like(ours)
    gradients, theirs = (torch.autograd.grad(out, [x, *vectors], direction) for out in (ours, expected))
    torch.testing.assert_close(gradients, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("channels", [8, 20])
def test_products_with_wider_numbers_are_wider(channels):
    x, a = torch.randn(5, 2, channels, dtype=torch.bfloat16), torch.randn(2, channels)
    (out,) = head_dots(x, a)
    torch.testing.assert_close(out, (x.float() * a).sum(-1))
