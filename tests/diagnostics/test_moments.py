import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.diagnostics import moments as module
from gnn_depth.diagnostics.moments import FEWEST_NUMBERS, RowMoments, _in_float32, sum_of_squares

CLOSE = {"rtol": 1e-12, "atol": 0.0}


def merge(*parts):
    return RowMoments.stack(parts).merged()


def by_loops(rows):
    """Count, mean, and sums of squares, centred and not, in exact arithmetic."""
    exact = [[Fraction(number) for number in row] for row in rows.tolist()]
    mean = [sum(column) / len(exact) for column in zip(*exact)]
    centred = sum((number - m) ** 2 for row in exact for number, m in zip(row, mean))
    square = sum(number**2 for row in exact for number in row)
    return [float(number) for number in (len(exact), *mean, centred, square)]


def assert_same(moments, expected, **tolerance):
    """Equal but for the scale; a mean near zero has lost the digits that cancelled."""
    torch.testing.assert_close(moments.count, expected.count)
    means = [one.mean * one.scale[..., None] for one in (moments, expected)]
    sizes = (expected.scale * (expected.square / expected.count).sqrt()).flatten().tolist()
    lost = 1e-15 * max([size for size in sizes if math.isfinite(size)], default=0.0)
    torch.testing.assert_close(*means, rtol=1e-12, atol=max(lost, tolerance.get("atol", 0.0)))
    assert_same_mu(moments, expected, **tolerance)


def assert_same_mu(moments, expected, **tolerance):
    mus = [one.scale * one.centred.sqrt() for one in (moments, expected)]
    torch.testing.assert_close(*mus, **(CLOSE | tolerance))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("count", "channels"), [(1, 4), (17, 5)])
def test_it_is_that_of_exact_arithmetic(dtype, count, channels):
    rows = (torch.randn(count, channels) + 2).to(dtype)
    moments = RowMoments.of(rows)
    assert {moments.count.dtype, moments.mean.dtype, moments.centred.dtype} == {torch.float64}
    mean, squares = moments.mean * moments.scale, moments.scale**2
    found = [moments.count, *mean, moments.centred * squares, moments.square * squares]
    assert [one.item() for one in found] == pytest.approx(by_loops(rows), rel=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_of_equal_rows_nothing_is_left_however_many_and_in_however_many_parts(dtype):
    rows = torch.randn(1, 100, dtype=torch.float64).to(dtype).expand(1004, 100)
    whole = RowMoments.of(rows)
    assert whole.centred == 0
    parts = [RowMoments.of(part) for part in rows.split([0, 3, 300, 1, 700])]
    assert RowMoments.stack(parts).merged().centred == 0


@pytest.mark.parametrize("count", [2, 260, 9000])
@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (1e-10, 30.0), (1e15, 30.0)])
def test_sums_in_float32_have_the_mean_and_the_centred_squares_of_float64(size, offset, count):
    rows = (torch.randn(count, max(64, FEWEST_NUMBERS // count)) + offset) * size
    assert _in_float32(rows) is not None
    found, expected = RowMoments.of(rows), RowMoments.of(rows.double())
    assert_same_mu(found, expected, rtol=2e-6)
    apart = found.mean * found.scale - expected.mean * expected.scale
    assert apart.norm() <= 1e-6 * expected.scale * (expected.square / count).sqrt()


@pytest.mark.parametrize(
    "rows",
    [
        torch.ones(300, 64),
        1 + 1e-6 * torch.randn(300, 64),
        torch.cat([torch.ones(4500, 64), torch.randn(4500, 64)]),
        1e-15 * torch.randn(300, 64),
        1e19 * torch.randn(300, 64),
        torch.full((300, 64), math.inf),
    ],
)
def test_rows_for_which_float32_loses_digits_are_summed_in_float64(rows):
    assert_same_mu(RowMoments.of(rows), RowMoments.of(rows.double()), rtol=1e-9, equal_nan=True)


@given(
    cuts=st.lists(st.integers(0, 30), max_size=5),
    order=st.randoms(use_true_random=False),
    size=st.sampled_from([1.0, 1e-200, 1e200, 1e-310]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    seed=st.integers(0, 2**16),
)
def test_any_split_merged_in_any_order_is_the_whole(cuts, order, size, offset, seed):
    draws = torch.Generator().manual_seed(seed)
    rows = (torch.randn(30, 3, dtype=torch.float64, generator=draws) + offset) * size
    ends = [0, *sorted(cuts), 30]
    parts = [RowMoments.of(rows[start:end]) for start, end in pairwise(ends)]
    whole = RowMoments.of(rows)
    # Far from zero the means have fewer digits of what differs: 1e6 takes 6 of the 16.
    rel = 1e-12 if offset <= 1 else 1e-10
    # Of rows of 1e-310 the last digit of a denormal number may differ.
    assert_same(RowMoments.stack(parts).merged(), whole, rtol=rel, atol=1e-320)
    while len(parts) > 1:
        order.shuffle(parts)
        parts.append(merge(parts.pop(), parts.pop()))
    assert_same(parts[0], whole, rtol=rel, atol=1e-320)


def test_parts_of_very_different_sizes_merge():
    large, small = (
        1e300 * torch.randn(4, 2, dtype=torch.float64),
        1e-300 * torch.randn(3, 2, dtype=torch.float64),
    )
    merged = merge(RowMoments.of(large), RowMoments.of(small))
    assert_same(merged, RowMoments.of(torch.cat([large, small])))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_no_rows_change_nothing_and_rows_of_zeros_are_rows(dtype):
    rows = (1e-30 * torch.randn(5, 3)).to(dtype)
    moments = RowMoments.of(rows)
    for empty in (RowMoments.empty(3), RowMoments.of(rows[:0])):
        assert_same(merge(moments, empty), moments)
        assert_same(merge(empty, moments), moments)
        assert_same(merge(merge(empty, empty.times(1e-30)).times(1e-30), empty.times(1e-30)), empty)
    assert_same(merge(moments, RowMoments.of(0 * rows)), RowMoments.of(torch.cat([rows, 0 * rows])))


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_an_entry_that_is_not_finite_makes_it_nan_and_what_it_is_merged_with(bad, dtype):
    rows = torch.randn(4, 3).to(dtype)
    rows[2, 1] = bad
    large = torch.cat([rows, torch.randn(4096, 3).to(dtype)]).repeat(1, 8)
    assert RowMoments.of(large).centred.isnan()
    moments, good = RowMoments.of(rows), RowMoments.of(rows[:1])
    for broken in (moments, merge(moments, good), merge(good, moments)):
        assert broken.centred.isnan()
        assert broken.square.isnan()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_that_do_not_fit_into_the_cache_are_summed_in_parts(monkeypatch, dtype):
    rows = (torch.randn(50, 7) + 3).to(dtype)
    whole = RowMoments.of(rows)
    for room in (5, 7, 100, 343):  # narrower than a row, one row, 14 of them, all but one
        monkeypatch.setattr(module, "CHUNK", room)
        assert_same(RowMoments.of(rows), whole)
    for strided in (rows.t().contiguous().t(), rows.repeat(1, 2)[:, :7]):
        assert_same(RowMoments.of(strided), whole)


def test_matrices_side_by_side_have_the_root_mean_squares_of_mu_and_of_norms():
    matrices = [torch.randn(6, 3, dtype=torch.float64) * size + size for size in (1e-3, 1.0, 50.0)]
    beside = RowMoments.stack(list(map(RowMoments.of, matrices))).side_by_side()
    assert_same(beside, RowMoments.of(torch.cat(matrices, 1) / 3**0.5))


def test_all_dimensions_but_the_last_count_rows_and_a_vector_has_one_column():
    x = torch.randn(2, 3, 4)
    assert_same(RowMoments.of(x), RowMoments.of(x.view(6, 4)))
    assert_same(RowMoments.of(x.to_sparse()), RowMoments.of(x.view(6, 4)))
    assert_same(RowMoments.of(x[0, 0]), RowMoments.of(x[0, 0, :, None]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-38, 1.0, 1e30])
@pytest.mark.parametrize("shape", [(300, 64), (3, 5, 2), (1, 1)])
def test_the_sum_of_squares_is_that_of_exact_arithmetic_at_any_size(shape, size, dtype):
    x = (torch.randn(shape, dtype=torch.float64) * size).to(dtype)
    expected = math.fsum(entry * entry for entry in x.double().flatten().tolist())
    found = sum_of_squares(x)
    assert found.dtype == torch.float64
    assert found.item() == pytest.approx(expected, rel=1e-6 if dtype == torch.float32 else 1e-12)
    assert sum_of_squares(x.transpose(0, 1)).item() == pytest.approx(expected, rel=1e-6)


def test_the_sum_of_squares_keeps_small_entries_beside_a_large_one_and_what_is_not_finite():
    x = torch.full((1000, 64), 1e-3)
    x[500, 3] = 1.0
    assert sum_of_squares(x).item() == pytest.approx(1 + 63999e-6, rel=1e-6)
    assert sum_of_squares(torch.zeros(0, 4)).item() == sum_of_squares(torch.zeros(5, 4)).item() == 0
    x[2, 1] = -math.inf
    assert sum_of_squares(x).item() == math.inf
    x[0, 0] = math.nan
    assert math.isnan(sum_of_squares(x).item())
