import math
from array import array

import pytest
import torch

from gnn_depth.diagnostics.narrow import FEWEST, MOST_ROWS, moments, sum_of_squares
from gnn_depth.diagnostics.spread import Spread

SIZES = [1e-38, 1e-30, 1e-12, 1.0, 1e10, 1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", [(7,), (300, 64), (3, 5, 2), (1, 1)])
def test_it_is_that_of_exact_arithmetic_at_any_size(shape, size, dtype):
    torch.manual_seed(0)
    x = (torch.randn(shape, dtype=torch.float64) * size).to(dtype)
    expected = math.fsum(entry * entry for entry in x.double().flatten().tolist())
    found = sum_of_squares(x)
    assert found.dtype == torch.float64
    assert found.item() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-12)


def test_one_large_entry_among_many_that_are_small_is_there_and_so_are_they():
    x = torch.full((1000, 64), 1e-3)
    x[500, 3] = 1.0
    assert sum_of_squares(x).item() == pytest.approx(1 + 63999e-6, rel=1e-6)


def test_of_nothing_and_of_zeros_it_is_zero():
    assert sum_of_squares(torch.zeros(0, 4)).item() == sum_of_squares(torch.zeros(5, 4)).item() == 0


@pytest.mark.parametrize("bad", [math.inf, -math.inf])
def test_of_something_infinite_it_is_infinite_and_of_nan_nan(bad):
    x = torch.ones(5, 4)
    x[2, 1] = bad
    assert sum_of_squares(x).item() == math.inf
    x[0, 0] = math.nan
    assert math.isnan(sum_of_squares(x).item())


def test_rows_may_lie_anywhere_in_memory():
    x = torch.randn(64, 300)
    assert sum_of_squares(x.t()).item() == pytest.approx(sum_of_squares(x).item(), rel=1e-6)


def exact(rows):
    mean = rows.double().mean(0)
    return mean, (rows.double() - mean).square().sum()


@pytest.mark.parametrize("count", [2, 260, 700, 4096])
@pytest.mark.parametrize("offset", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("size", [1e-10, 1.0, 1e15])
def test_rows_that_differ_have_the_mean_and_the_centred_squares_of_float64(size, offset, count):
    rows = (torch.randn(count, max(64, FEWEST // count)) + offset) * size
    (counted,) = moments(rows)
    mean, centred = torch.tensor(counted.mean, dtype=torch.float64), count * counted.variance
    expected_mean, expected = exact(rows)
    assert counted.rows == count
    assert centred == pytest.approx(expected.item(), rel=3e-6)
    assert (mean - expected_mean).norm() <= 1e-6 * (expected_mean.square().sum() + expected / count).sqrt()


def test_few_rows_with_nearly_all_of_the_size_leave_five_digits():
    rows = torch.randn(4096, 64).pow(3) * torch.rand(4096, 1).pow(8)
    (counted,) = moments(rows)
    assert 4096 * counted.variance == pytest.approx(exact(rows)[1].item(), rel=1e-5)


@pytest.mark.parametrize("apart", [0.99, 0.51, 0.49, 0.1, 1e-3])
def test_whatever_share_the_mean_has_mu_keeps_its_digits(apart):
    rows = torch.randn(2708, 64) + ((1 - apart) / apart) ** 0.5
    (counted,) = moments(rows)
    assert (2708 * counted.variance) ** 0.5 == pytest.approx(exact(rows)[1].item() ** 0.5, rel=2e-6)


@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(300, 64),
        torch.ones(300, 64) + 1e-3 * torch.randn(300, 64),
        1e-15 * torch.randn(300, 64),
        1e19 * torch.randn(300, 64),
        torch.randn(1, 1 << 15),
        torch.full((300, 64), math.inf),
        torch.full((300, 64), math.nan),
    ],
)
def test_what_float32_would_spoil_is_left_to_float64(rows):
    assert moments(rows) is None


def test_many_rows_are_counted_in_parts_that_make_up_the_whole():
    rows = torch.randn(2 * MOST_ROWS + 1, 16) + 1
    counted = moments(rows)
    assert sum(part.rows for part in counted) == len(rows)
    assert max(part.rows for part in counted) <= MOST_ROWS
    whole = Spread.of_moments(counted).merged()
    mean, centred = exact(rows)
    assert (whole.mean - mean).norm() <= 1e-6 * mean.norm()
    assert whole.centred.item() == pytest.approx(centred.item(), rel=3e-6)


def test_lengths_are_enough_for_mu_and_the_norm_of_what_is_not_merged():
    counted = [*moments(torch.randn(300, 64) + 1), *moments(torch.randn(400, 80))]
    whole, short = Spread.of_moments(counted), Spread.of_lengths(counted)
    assert torch.equal(short.centred, whole.centred)
    assert torch.allclose(short.square, whole.square, rtol=1e-12)


def test_one_part_in_which_float32_spoils_something_leaves_all_of_them_to_float64():
    rows = torch.randn(2 * MOST_ROWS, 16)
    rows[MOST_ROWS:] = 5.0
    assert moments(rows) is None


@pytest.mark.parametrize(
    "rows",
    [
        torch.randn(300, 64, dtype=torch.float64),
        torch.randn(300, 64).to(torch.bfloat16),
        torch.randn(3000, 8),
        torch.randn(100, 64),
        torch.randn(64, 300).t(),
        torch.randn(0, 64),
    ],
)
def test_large_matrices_of_float32_only_are_counted_so(rows):
    assert moments(rows) is None
    assert moments(torch.randn(300, 64)) is not None


def test_no_tensor_is_kept_that_would_lie_between_those_of_the_next_layers():
    (counted,) = moments(torch.randn(300, 64))
    assert [type(value) for value in counted] == [int, array, float, float]
