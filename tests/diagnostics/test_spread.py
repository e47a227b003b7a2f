import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnn_depth.diagnostics import spread as spread_module
from gnn_depth.diagnostics.spread import Spread

CLOSE = {"rtol": 1e-12, "atol": 0.0}


def by_loops(rows):
    """Count, mean and centred sum of squares in exact arithmetic."""
    exact = [[Fraction(number) for number in row] for row in rows.tolist()]
    mean = [sum(column) / len(exact) for column in zip(*exact)]
    centred = sum((number - m) ** 2 for row in exact for number, m in zip(row, mean))
    return len(exact), mean, centred


def assert_same(spread, expected, **tolerance):
    """Equal but for the scale."""
    torch.testing.assert_close(spread.count, expected.count)
    torch.testing.assert_close(
        spread.mean * spread.scale[..., None], expected.mean * expected.scale[..., None], **CLOSE
    )
    assert_same_mu(spread, expected, **tolerance)


def assert_same_mu(spread, expected, **tolerance):
    mus = [one.scale * one.centred.sqrt() for one in (spread, expected)]
    torch.testing.assert_close(*mus, **(CLOSE | tolerance))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("count", "channels"), [(1, 1), (1, 4), (2, 3), (17, 5)])
def test_it_is_that_of_exact_arithmetic(dtype, count, channels):
    rows = (torch.randn(count, channels) + 2).to(dtype)
    expected_count, mean, centred = by_loops(rows)
    spread = Spread.of(rows)
    assert spread.count == expected_count
    assert spread.count.dtype == spread.mean.dtype == spread.centred.dtype == spread.scale.dtype == torch.float64
    for column in range(channels):
        assert (spread.mean * spread.scale)[column] == pytest.approx(float(mean[column]), rel=1e-13)
    assert spread.centred * spread.scale**2 == pytest.approx(float(centred), rel=1e-13)
    square = sum(Fraction(number) ** 2 for row in rows.tolist() for number in row)
    assert spread.square * spread.scale**2 == pytest.approx(float(square), rel=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_of_equal_rows_nothing_is_left_however_many_and_in_however_many_parts(dtype):
    rows = torch.randn(1, 100, dtype=torch.float64).to(dtype).expand(1004, 100)
    whole = Spread.of(rows)
    assert whole.centred == 0
    parts = [Spread.of(part) for part in rows.split([0, 3, 300, 1, 700])]
    assert Spread.stack(parts).merged().centred == 0


def test_rows_that_are_almost_equal_in_float32_keep_all_digits_of_what_differs():
    rows = torch.randn(1, 8) * (1 + 1e-6 * torch.randn(500, 8))
    _, _, centred = by_loops(rows)
    assert Spread.of(rows).centred.sqrt() == pytest.approx(math.sqrt(centred), rel=1e-9)


@pytest.mark.parametrize("count", [400, 4097, 9000])
@pytest.mark.parametrize("noise", [1.0, 1e-2, 1e-3, 1e-6])
def test_large_matrices_of_float32_keep_six_digits_however_nearly_equal_their_rows_are(count, noise):
    rows = torch.randn(1, 64) + noise * torch.randn(count, 64)
    found, expected = Spread.of(rows), Spread.of(rows.double())
    assert found.count == count
    assert_same_mu(found, expected, rtol=2e-6)
    torch.testing.assert_close(found.square, expected.square * expected.scale**2, rtol=1e-6, atol=0)


def test_one_part_of_nearly_equal_rows_among_others_keeps_six_digits():
    rows = torch.cat([torch.ones(4500, 64), torch.randn(4500, 64)])
    assert_same_mu(Spread.of(rows), Spread.of(rows.double()), rtol=2e-6)


@settings(max_examples=60, deadline=None)
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
    parts = [Spread.of(rows[start:end]) for start, end in pairwise(ends)]
    whole = Spread.of(rows)
    # Far from zero the means have fewer digits of what differs: 1e6 takes 6 of the 16.
    rel = 1e-12 if offset <= 1 else 1e-10
    assert_same(Spread.stack(parts).merged(), whole, rtol=rel)
    while len(parts) > 1:
        order.shuffle(parts)
        parts.append(parts.pop().merge(parts.pop()))
    assert_same(parts[0], whole, rtol=rel)


def test_parts_of_very_different_sizes_merge():
    large, small = 1e300 * torch.randn(4, 2, dtype=torch.float64), 1e-300 * torch.randn(3, 2, dtype=torch.float64)
    merged = Spread.of(large).merge(Spread.of(small))
    assert_same(merged, Spread.of(torch.cat([large, small])))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_no_rows_change_nothing_and_rows_of_zeros_are_rows(dtype):
    rows = (1e-30 * torch.randn(5, 3)).to(dtype)
    spread = Spread.of(rows)
    for empty in (Spread.empty(3), Spread.of(rows[:0])):
        assert_same(spread.merge(empty), spread)
        assert_same(empty.merge(spread), spread)
        assert_same(empty.merge(empty.times(1e-30)).times(1e-30).merge(empty.times(1e-30)), empty)
    assert_same(spread.merge(Spread.of(0 * rows)), Spread.of(torch.cat([rows, 0 * rows])))


def test_rows_without_channels_are_counted():
    spread = Spread.of(torch.zeros(4, 0))
    assert (spread.count, spread.centred, spread.square) == (4, 0, 0)
    assert Spread.of(torch.zeros(0, 0)).merge(spread).count == 4


@pytest.mark.parametrize("bad", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("place", [0, 2])
def test_an_entry_that_is_not_finite_makes_it_nan_and_what_it_is_merged_with(bad, dtype, place):
    rows = torch.randn(4, 3).to(dtype)
    rows[place, 1] = bad
    spread = Spread.of(rows)
    large = torch.cat([rows, torch.randn(4096, 3).to(dtype)]).repeat(1, 8)
    assert Spread.of(large).centred.isnan()
    for broken in (spread, spread.merge(Spread.of(rows[1:2])), Spread.of(rows[1:2]).merge(spread)):
        assert broken.centred.isnan()
        assert broken.square.isnan()
    assert spread.merge(Spread.empty(3)).centred.isnan()


def test_one_layer_that_is_not_finite_leaves_the_others_alone():
    good, bad = Spread.of(torch.randn(4, 3)), Spread.of(torch.full((4, 3), float("nan")))
    merged = Spread.stack([Spread.stack([good, bad]), Spread.stack([good, good])]).merged()
    assert merged.centred.isnan().tolist() == [False, True]


def test_processes_that_exchange_one_flat_tensor_have_the_spread_of_each_layer_over_all_rows():
    widths, rows = [3, 5, 5, 2], [7, 0, 1]
    matrices = [[torch.randn(count, width) * 10**layer for count in rows] for layer, width in enumerate(widths)]
    packed = [Spread.stack([Spread.of(layer[process]) for layer in matrices]).widened(5).pack() for process in range(3)]
    assert all(flat.shape == (4 * 8,) for flat in packed)
    merged = Spread.unpack(torch.stack(packed), 4).merged()
    for number, layer in enumerate(matrices):
        whole = Spread.of(torch.cat(layer))
        assert merged.count[number] == 8
        torch.testing.assert_close(merged.mean[number, : widths[number]], whole.mean, **CLOSE)
        assert not merged.mean[number, widths[number] :].any()
        torch.testing.assert_close(merged.centred[number], whole.centred, **CLOSE)


def test_what_is_packed_is_unpacked():
    spread = Spread.stack([Spread.of(torch.randn(4, 3, dtype=torch.float64)), Spread.empty(3)])
    again = Spread.unpack(spread.pack(), 2)
    for name in ("count", "mean", "centred", "scale"):
        assert torch.equal(getattr(again, name), getattr(spread, name))


def test_a_factor_is_one_of_the_rows_and_may_differ_between_layers():
    rows = [torch.randn(6, 3, dtype=torch.float64) for _ in range(2)]
    spread = Spread.stack([Spread.of(matrix) for matrix in rows])
    factor = torch.tensor([1 / 65536, 3.0], dtype=torch.float64)
    assert_same(spread.times(factor), Spread.stack([Spread.of(f * m) for f, m in zip(factor, rows)]))


def test_rows_stay_what_they_are_and_have_no_gradients_here():
    for dtype in (torch.float64, torch.float32):
        rows = torch.randn(4, 3, dtype=dtype, requires_grad=True)
        before = rows.detach().clone()
        spread = Spread.of(rows)
        assert torch.equal(rows, before)
        assert not spread.centred.requires_grad
        assert not spread.mean.requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_that_do_not_fit_into_the_workspace_are_looked_at_in_parts(monkeypatch, dtype):
    rows = (torch.randn(50, 7) + 3).to(dtype)
    whole = Spread.of(rows)
    for room in (5, 7, 100, 343):  # narrower than a row, one row, 14 of them, all but one
        monkeypatch.setattr(spread_module, "CHUNK", room)
        assert_same(Spread.of(rows), whole)
    for strided in (rows.t().contiguous().t(), rows.repeat(1, 2)[:, :7]):
        assert_same(Spread.of(strided), whole)


def test_matrices_side_by_side_have_the_root_mean_squares_of_mu_and_of_norms():
    matrices = [torch.randn(6, 3, dtype=torch.float64) * size + size for size in (1e-3, 1.0, 50.0)]
    spreads = [Spread.of(matrix) for matrix in matrices]
    expected = Spread.of(torch.cat(matrices, 1) / 3**0.5)
    beside = Spread.stack(spreads).abreast()
    assert_same(beside, expected)
    norms = torch.stack([matrix.norm() for matrix in matrices])
    torch.testing.assert_close(beside.square.sqrt() * beside.scale, norms.square().mean().sqrt(), **CLOSE)
    same = Spread.stack([spreads[1], spreads[1]]).abreast()
    assert_same_mu(same, spreads[1])
    assert same.count == 6


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), ()])
def test_what_is_no_matrix_is_said_to_be_none(shape):
    with pytest.raises(ValueError, match=r"matrix, and this has shape .*flatten\(1\)"):
        Spread.of(torch.zeros(shape))
