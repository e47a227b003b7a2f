"""Masks of dropout as random numbers: counts, correlations and higher moments within five standard deviations."""

import pytest
import torch

from gnn_depth.nn.functional import dropout
from gnn_depth.nn.functional.dropout import kept

PROBABILITIES = pytest.mark.parametrize("p", [0.05, 0.3, 0.5, 0.6, 0.9])
HALF = pytest.mark.parametrize("p", [0.3, 0.5, 0.6])


def seeds(count):
    return torch.randint(-(2**31), 2**31 - 1, (count, 2), dtype=torch.int32)


def standardised(count, seed, p):
    """The keep-decisions with mean 0 and variance 1."""
    keep = kept(torch.arange(count, dtype=torch.int32), seed, p)
    return (keep.float() - (1 - p)) / (p * (1 - p)) ** 0.5


@PROBABILITIES
def test_counts_over_many_seeds_are_those_of_a_binomial(p):
    z = torch.stack([standardised(2**16, seed, p).sum() for seed in seeds(200)]) / 2**8
    assert abs(z.sum()) / 200**0.5 < 5
    assert z.abs().max() < 5
    assert abs(z.square().sum() - 200) / 400**0.5 < 5


@HALF
@pytest.mark.parametrize("width", [64, 100])
def test_decisions_at_a_distance_are_independent(p, width):
    lags = {1, 2, 3, width, width + 1, *(2**power for power in range(2, 13))}
    masks = [standardised(2**16, seed, p) for seed in seeds(24)]
    for lag in lags:
        correlations = torch.stack([(mask[lag:] * mask[:-lag]).mean() for mask in masks])
        sigma = (2**16 - lag) ** -0.5
        assert (correlations.abs() < 5 * sigma).all(), lag
        assert correlations.mean().abs() < 5 * sigma / 24**0.5, lag


@HALF
def test_masks_of_successive_calls_are_independent(p):
    masks = torch.stack([(dropout(torch.ones(2**16), p) > 0).float() - (1 - p) for _ in range(40)])
    for shift in (0, 1, 2):  # of the same element, and of its neighbours
        moved = masks.roll(shift, 1)
        correlation = (masks @ moved.t() / (p * (1 - p)) / 2**16).triu(1)
        assert correlation.abs().max() < 5 / 2**8
        assert abs(correlation.sum()) < 5 * (40 * 39 / 2) ** 0.5 / 2**8


@HALF
@pytest.mark.parametrize("bit", [*range(0, 32, 3), 31])
@pytest.mark.parametrize("number", [0, 1])
def test_seeds_that_differ_in_one_bit_give_hardly_correlated_masks(p, bit, number):
    flip = torch.zeros(2, dtype=torch.int32)
    flip[number] = 2**bit - (2**32 if bit == 31 else 0)
    products = [standardised(2**16, s, p) * standardised(2**16, s ^ flip, p) for s in seeds(8)]
    assert torch.stack(products).mean().abs() < 5 / 2**9.5 + 0.1


@HALF
@pytest.mark.parametrize(("rows", "width"), [(256, 64), (200, 100), (128, 512), (40, 1433)])
def test_the_corners_of_rectangles_are_independent(p, rows, width):
    parities = []
    for seed in seeds(24):
        mask = standardised(rows * width, seed, p).view(rows, width).double()
        squares = mask.square()
        # Over all pairs of columns: (sum m_ij m_lj)^2 is twice their products, and the squares of each.
        twice = (mask @ mask.t()).square() - squares @ squares.t()
        parities.append(twice.triu(1).sum() / 2 / (rows * (rows - 1) * width * (width - 1) / 4) ** 0.5)
    z = torch.stack(parities)
    assert z.abs().max() < 5
    assert abs(z.mean()) * 24**0.5 < 5
