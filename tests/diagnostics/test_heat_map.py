import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import AsinhNorm, to_rgba

from gnn_depth import measurements
from gnn_depth.diagnostics import heat_map as module
from gnn_depth.diagnostics.heat_map import (
    LOST,
    MAP,
    ONE_SIGN,
    SCALE,
    SCALE_OF_LOGARITHMS,
    WIDTH,
    ZERO,
    heat_map,
    heat_map_figure,
)
from gnn_depth.measurements import MeasureValues


def measured(values, steps=None, log10=True, layers=()):
    values = np.array(values, dtype=float)
    steps = np.arange(len(values)) if steps is None else np.array(steps)
    return MeasureValues("mu", steps, values, "µ(G)", log10, np.array(layers, dtype=int))


def cells(measurement):
    """The colours of the map: a row for each layer, the first one first."""
    (image,) = heat_map_figure(measurement).axes[0].images
    assert image.origin == "lower"
    return image.get_array()


def colour(part):
    """The only colour of a part of a map."""
    (found,) = {tuple(pixel) for pixel in part.reshape(-1, 4).tolist()}
    return found


def shade(value, log10=True):
    """The colour of a value in any map."""
    linear, largest, _ = SCALE_OF_LOGARITHMS if log10 else SCALE
    return colormaps[MAP](float(AsinhNorm(linear, -largest, largest)(value)))


def test_steps_lie_to_the_right_and_layers_upwards():
    map_ = cells(measured([[0.0, 1.0], [2.0, 4.0]]))
    halves = [
        colour(map_[layer, part])
        for layer in (0, 1)
        for part in (slice(WIDTH // 2), slice(WIDTH // 2, None))
    ]
    assert halves == [shade(value) for value in (0.0, 2.0, 1.0, 4.0)]


def test_axes_name_steps_layers_and_values():
    figure = heat_map_figure(measured([[0.0, 1.0], [2.0, 4.0]], steps=[100, 200], layers=[3, 7]))
    axes, bar = figure.axes
    assert (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()) == (
        "log₁₀ µ(G)",
        "step",
        "layer",
    )
    assert [label.get_text() for label in axes.get_yticklabels()] == ["3", "7"]
    assert axes.images[0].get_extent() == [50, 250, -0.5, 1.5]
    assert bar.get_ylim() == pytest.approx((-20, 20))
    assert bar.get_yticks().tolist() == [-20, -10, -3, -1, -0.3, 0, 0.3, 1, 3, 10, 20]
    assert not figure.legends


def test_an_exact_zero_is_black_and_what_is_not_finite_is_grey_and_the_legend_says_so():
    zero, lost, infinite, there = cells(measured([[-np.inf, np.nan, np.inf, 1.0]]))
    assert [colour(part) for part in (zero, lost, infinite)] == [
        to_rgba(ZERO),
        to_rgba(LOST),
        to_rgba(LOST),
    ]
    assert colour(there) not in (to_rgba(ZERO), to_rgba(LOST))
    names = {
        value: [
            text.get_text()
            for legend in heat_map_figure(measured([[0.0, value]])).legends
            for text in legend.get_texts()
        ]
        for value in (1.0, -np.inf, np.nan)
    }
    assert [len(found) for found in names.values()][:2] == [0, 1]
    assert "zero" in names[-np.inf][0]
    (lost,) = cells(measured([[-np.inf]], log10=False))
    assert colour(lost) == to_rgba(LOST), "only a logarithm of minus infinity is a zero"


@pytest.mark.parametrize("log10", [True, False])
def test_a_value_has_the_same_colour_in_every_run_white_at_zero(log10):
    alone = colour(cells(measured([[0.5]], log10=log10)))
    low, zero, high, same = cells(measured([[-1e9, 0.0, 1e9, 0.5]], log10=log10))
    assert colour(same) == alone == shade(0.5, log10)
    assert [colour(low), colour(high)] == [colormaps[MAP](end) for end in (0.0, 1.0)], (
        "beyond the scale: its ends"
    )
    assert min(colour(zero)) > 0.95


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_a_single_step_of_many_that_is_not_finite_is_not_averaged_away(lost):
    values = np.ones((50 * WIDTH, 2))
    values[7003, 1] = lost
    _, row = cells(measured(values, log10=False))
    assert np.flatnonzero((row == to_rgba(LOST)).all(axis=1)).tolist() == [7003 // 50]


def test_columns_are_the_means_of_the_steps_that_they_meet():
    steps = np.unique(np.random.default_rng(0).integers(0, 5000, 900))
    values = np.random.default_rng(1).standard_normal((len(steps), 3))
    edges = measurements.edges(steps)
    found = module._columns(edges, values)
    width = (edges[-1] - edges[0]) / WIDTH
    for column in range(WIDTH):
        left, right = edges[0] + column * width, edges[0] + (column + 1) * width
        met = [
            row
            for row, a, b in zip(values, edges, edges[1:])
            if b > left + 1e-9 and a < right - 1e-9
        ]
        assert found[column] == pytest.approx(np.mean(met, axis=0)), column


@pytest.mark.parametrize("log10", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        [[np.nan, np.nan]],
        [[-np.inf], [-np.inf]],
        [[-40.0, 1e300, -1e300]],
        [[1e20, 1e20 * (1 + 1e-15)]],
        np.zeros((3, 1000)),
    ],
)
def test_any_values_make_a_picture(values, log10):
    picture = heat_map(measured(values, log10=log10))
    assert picture.dtype == np.uint8
    assert picture.shape == (440, 540, 3)
    assert picture.min() < 100, "something is written"


@pytest.mark.parametrize(
    ("values", "name", "span"),
    [([[-3.0, -1.0]], ONE_SIGN, (-3, -1)), ([[-1.0, 2.0]], MAP, (-2, 2))],
)
def test_a_fitted_map_spans_its_own_values_and_is_white_at_zero_if_there_are_both_signs(
    values, name, span
):
    figure = heat_map_figure(measured(values), fitted=True)
    low, high = span
    expected = [colormaps[name]((value - low) / (high - low)) for value in values[0]]
    found = [colour(row) for row in figure.axes[0].images[0].get_array()]
    assert found == [pytest.approx(one) for one in expected]
    assert figure.axes[1].get_ylim() == pytest.approx(span)
