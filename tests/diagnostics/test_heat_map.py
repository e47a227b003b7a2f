import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgba

from gnn_depth import measurements
from gnn_depth.diagnostics import heat_map as module
from gnn_depth.diagnostics.heat_map import LOST, WIDTH, ZERO, heat_map, pixels
from gnn_depth.measurements import MeasureValues


def measured(values, steps=None, log10=True, layers=(), around_zero=False):
    values = np.array(values, dtype=float)
    steps = np.arange(len(values)) if steps is None else np.array(steps)
    layers = np.array(layers, dtype=int)
    return MeasureValues("mu", steps, values, "µ(G)", log10, layers, around_zero)


def cells(measurement):
    """The colours of the map: a row for each layer, the first one first."""
    (image,) = heat_map(measurement).axes[0].images
    assert image.origin == "lower"
    return image.get_array()


def colour(part):
    """The only colour of a part of a map."""
    (found,) = {tuple(pixel) for pixel in part.reshape(-1, 4).tolist()}
    return found


def test_steps_lie_to_the_right_and_layers_upwards():
    map_ = cells(measured([[0.0, 1.0], [2.0, 4.0]]))
    halves = [
        colour(map_[layer, part])
        for layer in (0, 1)
        for part in (slice(WIDTH // 2), slice(WIDTH // 2, None))
    ]
    assert halves == [colormaps["viridis"](value / 4) for value in (0.0, 2.0, 1.0, 4.0)]


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
            for legend in heat_map(measured([[0.0, value]])).legends
            for text in legend.get_texts()
        ]
        for value in (1.0, -np.inf, np.nan)
    }
    assert [len(found) for found in names.values()][:2] == [0, 1]
    assert "zero" in names[-np.inf][0]
    (lost,) = cells(measured([[-np.inf]], log10=False))
    assert colour(lost) == to_rgba(LOST), "only a logarithm of minus infinity is a zero"


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
    picture = pixels(heat_map(measured(values, log10=log10)))
    assert picture.dtype == np.uint8
    assert picture.shape == (440, 540, 3)
    assert picture.min() < 100, "something is written"


@pytest.mark.parametrize(
    ("values", "around_zero", "name", "span"),
    [
        ([[-3.0, -1.0]], False, "viridis", (-3, -1)),
        ([[-1.0, 2.0]], False, "viridis", (-1, 2)),
        ([[-1.0, 2.0]], True, "RdBu_r", (-2, 2)),
        ([[-3.0, -1.0]], True, "RdBu_r", (-3, 3)),
    ],
)
def test_colours_span_the_values_and_the_map_is_the_measures_own_whatever_they_are(
    values, around_zero, name, span
):
    figure = heat_map(measured(values, around_zero=around_zero))
    low, high = span
    expected = [colormaps[name]((value - low) / (high - low)) for value in values[0]]
    found = [colour(row) for row in figure.axes[0].images[0].get_array()]
    assert found == [pytest.approx(one) for one in expected]
    assert figure.axes[1].get_ylim() == pytest.approx(span)
