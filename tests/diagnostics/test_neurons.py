"""Statistics of all neurons at once."""

import numpy as np
import pytest
import torch

from gnn_depth.diagnostics.balance import (
    QUANTILES,
    distribution,
    laws_of,
    norms_of,
)
from tests import reference
from tests.nn.stacks import stack_of


def drawn(stack):
    """In double precision, with every parameter drawn, and the gradient of every second one; the
    others are frozen."""
    for place, parameter in enumerate(reference.drawn(stack).parameters()):
        parameter.requires_grad_(place % 2 == 0)
        parameter.grad = torch.randn_like(parameter) if place % 2 == 0 else None
    return stack


def test_norms_are_those_of_all_parameters_of_a_set_together():
    stack = drawn(stack_of("gatv2", "encoder_and_decoder"))
    sets = [list(layer.parameters()) for layer in stack.layers] + [[]]
    norms = norms_of(sets)
    for place, parameters in enumerate(sets[:-1]):
        squares = [sum(p.pow(2).sum().item() for p in parameters)]
        squares.append(sum(p.grad.pow(2).sum().item() for p in parameters if p.grad is not None))
        assert norms[:, place].square().tolist() == pytest.approx(squares, rel=1e-12)
    assert norms[:, -1].isnan().all()


def test_a_distribution_leaves_out_padding_and_not_an_unknown_neuron():
    laws = torch.tensor([[[1.0, 2.0, 6.0], [3.0, 5.0, torch.nan]]]).expand(2, -1, -1)
    found = distribution(laws, [3, 2])[0]
    for link, values in enumerate(([1.0, 2.0, 6.0], [3.0, 5.0])):
        expected = [np.mean(values), *np.quantile(values, QUANTILES)]
        assert found[:, link].tolist() == pytest.approx(expected)
    assert distribution(laws, [3, 3])[0].isnan().any(0).tolist() == [False, True]


def test_zero_parameters_and_gradients_too_small_for_squares_are_read():
    stack = stack_of("gatv2", "bare")
    for parameter in stack.parameters():
        parameter.data.zero_()
        parameter.grad = torch.full_like(parameter, 1e-30)
    laws = laws_of(stack.links())
    norms = norms_of([list(stack.parameters())])
    count = sum(parameter.numel() for parameter in stack.parameters())
    assert (laws[~laws.isnan()] == 0).all()
    assert norms[:, 0].tolist() == pytest.approx([0, 1e-30 * count**0.5], rel=1e-6)
