import math

import pytest
import torch

from gnn_depth.diagnostics.narrow import sum_of_squares

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
