"""Masks of dropout as random numbers: counts, correlations and higher moments within five standard deviations."""

import itertools

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
def test_layers_of_a_step_and_steps_of_a_layer_draw_independent_masks(p):
    masks = torch.stack([(dropout(torch.ones(300, 64), p) > 0).float() for _ in range(60)]).view(12, 5, -1)
    for dim in (0, 1):  # over 12 steps, over 5 layers
        count = masks.shape[dim]
        z = (masks.sum(dim) - count * (1 - p)) / (count * p * (1 - p)) ** 0.5
        kurtosis = (1 - 6 * p * (1 - p)) / (p * (1 - p)) / count
        assert abs(z.square().sum() - z.numel()) < 5 * ((2 + kurtosis) * z.numel()) ** 0.5


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


@HALF
@pytest.mark.parametrize(("rows", "width"), [(2708, 64), (512, 512), (300, 1433)])
def test_sums_of_rows_and_of_columns_vary_as_a_binomial(p, rows, width):
    kurtosis = (1 - 6 * p * (1 - p)) / (p * (1 - p))
    for seed in seeds(8):
        mask = standardised(rows * width, seed, p).view(rows, width)
        for dim, (sums, terms) in enumerate([(width, rows), (rows, width)]):
            chi_square = (mask.sum(dim).square() / terms).sum()
            assert abs(chi_square - sums) < 5 * (sums * (2 + kurtosis / terms)) ** 0.5


def test_a_mask_is_no_shifted_copy_of_another_calls():
    masks = [(dropout(torch.ones(2**14), 0.5) > 0).double() * 2 - 1 for _ in range(8)]
    for one, other in itertools.combinations(masks, 2):
        spectrum = torch.fft.rfft(one) * torch.fft.rfft(other).conj()
        assert torch.fft.irfft(spectrum).abs().max() / 2**14 < 6.5 / 2**7
