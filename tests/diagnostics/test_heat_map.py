from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.diagnostics import heat_map as module
from gnn_depth.diagnostics.heat_map import BLUE_TO_RED, LEFT, STRIPES, TOP, VIRIDIS, WIDTH, heat_map, ticks
from gnn_depth.measurements import Measurement

BLACK = (0, 0, 0)


def rgb(colour):
    return tuple(bytes.fromhex(colour))


def measured(values, steps=None, log10=True, layers=()):
    values = np.array(values, dtype=float)
    steps = np.arange(len(values)) if steps is None else np.array(steps)
    return Measurement("mu", steps, values, "mu(G)", log10, np.array(layers, dtype=int))


def cells(measurement):
    """The map itself, a row a layer from the first on."""
    picture = heat_map(measurement)
    count = len(measurement.layers)
    rows = min(module.TALLEST, max(1, module.HEIGHT // count))
    inside = picture[TOP : TOP + rows * count, LEFT : LEFT + WIDTH]
    return inside.reshape(count, rows, WIDTH, 3)[::-1]


def colour(part):
    """The only colour of a part of a map."""
    (found,) = {tuple(pixel) for pixel in part.reshape(-1, 3).tolist()}
    return found


def test_steps_lie_to_the_right_and_layers_upwards():
    map_ = cells(measured([[0.0, 1.0], [2.0, 4.0]]))
    assert colour(map_[0, :, : WIDTH // 2]) == rgb(VIRIDIS[0])
    assert colour(map_[1, :, : WIDTH // 2]) == rgb(VIRIDIS[2])
    assert colour(map_[0, :, WIDTH // 2 :]) == rgb(VIRIDIS[4])
    assert colour(map_[1, :, WIDTH // 2 :]) == rgb(VIRIDIS[8])


def test_a_step_is_as_wide_as_the_time_until_it_is_measured_again():
    (row,) = cells(measured([[0.0], [1.0], [2.0]], steps=[0, 10, 40]))  # from -5 to 5, 25 and 55
    at = [round(WIDTH * place / 60) for place in (0, 10, 30, 60)]
    assert [colour(row[:, a + 1 : b - 1]) for a, b in pairwise(at)] == [rgb(VIRIDIS[k]) for k in (0, 4, 8)]


def test_an_exact_zero_is_black_and_what_is_not_finite_is_striped():
    zero, lost, infinite, there = cells(measured([[-np.inf, np.nan, np.inf, 1.0]]))
    assert colour(zero) == BLACK
    for part in (lost, infinite):
        assert {tuple(pixel) for pixel in part.reshape(-1, 3).tolist()} == set(STRIPES)
    assert colour(there) not in (BLACK, *STRIPES)


def test_the_legend_names_what_has_no_colour_and_only_that():
    def below(values):
        return heat_map(measured([values]))[-module.LEGEND :]

    plain, zero, lost = below([0.0, 1.0]), below([0.0, -np.inf]), below([0.0, np.nan])
    assert (plain == 255).all()
    assert (zero == 0).any()
    assert (lost == STRIPES[1]).all(axis=-1).any()
    assert not np.array_equal(zero, lost)


def test_values_of_both_signs_have_white_at_zero():
    low, zero, high, lost = cells(measured([[-3.0, 0.0, 3.0, -np.inf]], log10=False))
    assert [colour(part) for part in (low, high)] == [rgb(BLUE_TO_RED[0]), rgb(BLUE_TO_RED[-1])]
    assert np.abs(np.array(colour(zero)) - rgb(BLUE_TO_RED[4])).max() <= 1
    assert {tuple(pixel) for pixel in lost.reshape(-1, 3).tolist()} == set(STRIPES), "no zero: it is no logarithm"


def test_one_sign_alone_takes_the_whole_scale():
    low, high = cells(measured([[1.0, 3.0]], log10=False))
    assert [colour(low), colour(high)] == [rgb(VIRIDIS[0]), rgb(VIRIDIS[-1])]


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_a_single_step_of_many_that_is_not_finite_is_not_averaged_away(lost):
    values = np.ones((50 * WIDTH, 2))
    values[7003, 1] = lost
    whole, part = cells(measured(values, log10=False))
    assert colour(whole) == colour(part[:, : WIDTH // 8])
    (places,) = np.nonzero((part != part[0, 0]).any(axis=(0, 2)))
    assert set(places) == {7003 // 50}


def test_pixels_are_the_means_of_the_steps_that_they_meet():
    steps = np.unique(np.random.default_rng(0).integers(0, 5000, 900))
    values = np.random.default_rng(1).standard_normal((len(steps), 3))
    edges = module._edges(steps)
    found = module._pixels(edges, values)
    width = (edges[-1] - edges[0]) / WIDTH
    for pixel in range(WIDTH):
        left, right = edges[0] + pixel * width, edges[0] + (pixel + 1) * width
        met = [row for row, a, b in zip(values, edges, edges[1:]) if b > left + 1e-9 and a < right - 1e-9]
        assert found[pixel] == pytest.approx(np.mean(met, axis=0)), pixel


@pytest.mark.parametrize(
    "values",
    [
        [[0.0]],
        [[np.nan, np.nan]],
        [[-np.inf], [-np.inf]],
        [[-40.0, 1e300, -1e300]],
        [[-5e-324, 5e-324]],
        [[1e20, 1e20 * (1 + 1e-15)]],
        np.zeros((3, 1000)),
    ],
)
@pytest.mark.parametrize("log10", [True, False])
def test_any_values_make_a_picture(values, log10):
    picture = heat_map(measured(values, log10=log10))
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert picture.shape[0] >= TOP + len(values[0])
    assert picture.min() < 100, "something is written"


@given(
    st.floats(-1e300, 1e300),
    st.floats(1e-6, 1e6),
    st.sampled_from([1.0, 1e-30, 1e30]),
    st.booleans(),
    st.integers(2, 9),
)
def test_ticks_are_round_and_few_and_inside(low, width, unit, whole, count):
    low = np.fmod(low, 1e6) * unit
    high = low + width * unit
    found = ticks(low, high, whole, count)
    assert len(found) <= count + 1
    assert all(low - 1e-9 * abs(low) <= tick <= high + 1e-9 * abs(high) for tick in found)
    if not whole and high - low > 1e-6 * abs(low):
        assert len(found) >= count // 3
    if whole:
        assert all(tick == round(tick) for tick in found)


def test_ticks_are_multiples_of_one_two_or_five():
    assert ticks(0, 10, count=5) == [0, 2, 4, 6, 8, 10]
    assert ticks(-20.3, 3.1, count=5) == [-20, -15, -10, -5, 0]
    assert ticks(0, 2, whole=True) == [0, 1, 2]
    assert ticks(0.5, 1.0) == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
