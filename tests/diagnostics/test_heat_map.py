import math

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgba

from gnn_depth.diagnostics.heat_map import LOST, WIDTH, ZERO, heat_map
from gnn_depth.measurements import MeasureValues


def measured(values, log10=True, around_zero=False):
    values = np.array(values, dtype=float)
    steps = np.arange(len(values))
    return MeasureValues("mu", steps, values, "µ(G)", log10, around_zero=around_zero)


def colours(measurement):
    """The colours of the map: a row for each layer, the first one first."""
    figure = heat_map(measurement)
    figure.canvas.draw_idle()
    mesh = figure.axes[0].collections[0]
    mesh.update_scalarmappable()
    return mesh.get_facecolors().reshape(*mesh.get_array().shape, 4)


def test_an_exact_zero_is_black_and_what_is_not_finite_is_grey_and_the_legend_says_so():
    values = [[-math.inf, math.nan, math.inf, 1.0]]
    zero, lost, infinite, there = (tuple(row[0]) for row in colours(measured(values)))
    assert (zero, lost, infinite) == (to_rgba(ZERO), to_rgba(LOST), to_rgba(LOST))
    assert there not in (to_rgba(ZERO), to_rgba(LOST))
    (legend,) = heat_map(measured(values)).legends
    assert len(legend.get_texts()) == 2
    assert not heat_map(measured([[0.0, 1.0]])).legends
    # Only a logarithm of minus infinity is a zero.
    assert tuple(colours(measured([[-math.inf]], log10=False))[0, 0]) == to_rgba(LOST)


def test_steps_that_share_a_column_are_averaged_and_one_that_is_not_finite_is_seen():
    values = np.random.default_rng(0).random((50 * WIDTH, 2))
    values[7003, 1] = math.nan
    axes = heat_map(measured(values, log10=False)).axes[0]
    mesh = axes.collections[0]
    assert axes.get_ylim() == (0.5, 2.5)
    expected = values.reshape(WIDTH, 50, 2).mean(axis=1).T
    np.testing.assert_allclose(mesh.get_array().filled(math.nan), expected)


@pytest.mark.parametrize(
    ("values", "around_zero", "name", "span"),
    [
        ([[-3.0, -1.0]], False, "viridis", (-3, -1)),
        ([[0.999, 1.0]], False, "viridis", (0.9945, 1.0045)),  # noise does not look like a change
        ([[-1.0, 2.0]], True, "RdBu_r", (-2, 2)),
        ([[-3.0, -1.0]], True, "RdBu_r", (-3, 3)),
    ],
)
def test_colours_span_the_values_and_are_white_at_zero(values, around_zero, name, span):
    measurement = measured(values, around_zero=around_zero)
    low, high = span
    expected = [colormaps[name]((value - low) / (high - low)) for value in values[0]]
    assert colours(measurement)[:, 0] == pytest.approx(np.array(expected))
    assert heat_map(measurement).axes[1].get_ylim() == pytest.approx(span)


def test_colours_may_span_the_last_steps_alone():
    values = [[-math.inf, 9.0], [8.0, -5.0], [1.0, 2.0], [3.0, 4.0]]
    figure = heat_map(measured(values), recent=2)
    mesh = figure.axes[0].collections[0]
    assert mesh.get_clim() == (1, 4)
    # Values beyond the ends get their colours; only a zero is black.
    assert mesh.get_array().tolist() == [[0, 4, 1, 3], [4, 1, 2, 4]]


@pytest.mark.parametrize(("far", "arrows"), [(400.0, 2), (-400.0, 2), (9.0, 0)])
def test_one_layer_far_from_all_others_does_not_take_the_whole_colour_scale(far, arrows):
    values = np.arange(60.0).reshape(6, 10) % 8
    values[:, 3] = far
    figure = heat_map(measured(values))
    low, high = figure.axes[0].collections[0].get_clim()
    assert -25 < low <= 0 < 7 <= high < 25
    assert len(figure.axes[1].patches) == arrows
    values[:, 4:7] = far  # several layers are no exception
    low, high = heat_map(measured(values)).axes[0].collections[0].get_clim()
    assert min(low, high, key=lambda end: abs(end - far)) == pytest.approx(far, rel=0.1)


def test_the_axis_of_steps_holds_measured_steps_alone():
    few = MeasureValues("mu", np.array([0, 31]), np.ones((2, 3)), "µ(G)")
    assert heat_map(few).axes[0].get_xlim() == (-0.5, 31.5)
