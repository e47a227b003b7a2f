"""All neurons at once are what each is alone."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gnn_depth.diagnostics.balance import (
    QUANTILES,
    defect,
    distribution,
    imbalance,
    laws_of,
    norms_of,
)
from gnn_depth.nn.neurons import WeightRole
from tests.nn.stacks import STACKS, stack_of


def drawn(stack):
    """In double precision, with every parameter drawn, and the gradient of every second one; the
    others are frozen."""
    for place, parameter in enumerate(stack.double().parameters()):
        parameter.data.normal_()
        parameter.requires_grad_(place % 2 == 0)
        parameter.grad = torch.randn_like(parameter) if place % 2 == 0 else None
    return stack


def gradient(parameter):
    return parameter.grad


@pytest.mark.parametrize(("variant", "assembly"), STACKS)
def test_the_laws_of_all_links_are_those_of_each(variant, assembly):
    stack = drawn(stack_of(variant, assembly))
    links = stack.links()
    laws = laws_of(links)
    for place, link in enumerate(links):
        c, delta = imbalance(link), defect(link, gradient)
        for ours, expected in zip(laws[:, place, : len(c)], (c, delta)):
            torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
        assert laws[:, place, len(c) :].isnan().all()


def test_norms_are_those_of_all_parameters_of_a_set_together():
    stack = drawn(stack_of("gatv2", "encoder_and_decoder"))
    sets = [list(layer.parameters()) for layer in stack.layers] + [[]]
    norms = norms_of(sets)
    for place, parameters in enumerate(sets[:-1]):
        squares = [sum(p.pow(2).sum().item() for p in parameters)]
        squares.append(sum(p.grad.pow(2).sum().item() for p in parameters if p.grad is not None))
        assert norms[:, place].square().tolist() == pytest.approx(squares, rel=1e-12)
    assert norms[:, -1].isnan().all()


def test_the_distribution_is_that_of_the_neurons_of_each_link():
    wide, narrow = torch.randn(5, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    links = [
        SimpleNamespace(states=[s], incoming=[WeightRole(w, axis=0)], attention=[], outgoing=[])
        for s, w in enumerate((wide, narrow))
    ]
    laws = laws_of(links)
    found = distribution(laws, [5, 2])[0].numpy()
    for place, weight in enumerate((wide, narrow)):
        values = weight.square().sum(1).numpy()
        assert found[:, place] == pytest.approx(
            [values.mean(), *np.quantile(values, QUANTILES)], rel=1e-12
        )
    laws[0, 1, 0] = torch.nan
    found = distribution(laws, [5, 2])[0]
    assert found[:, 1].isnan().all()
    assert found[:, 0].isfinite().all()


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
