"""Figures: what Matplotlib was given is read back and compared with loops over the runs."""

import json
import math
import statistics

import numpy as np
import pytest
from matplotlib.collections import PathCollection, QuadMesh
from scipy.stats import t as student

from gnn_depth.measurements import MeasureValues
from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.figures import draw
from tests.reports.made import balance, make_run, similarity

VALUES = {
    ("gat", 2): [0.8, 0.82, 0.81],
    ("gat", 10): [0.5, 0.7, 0.6],
    ("lip", 2): [0.79, 0.8, 0.84],
    ("lip", 10): [0.77],
}


@pytest.fixture
def grid(tmp_path):
    for (norm, number), values in VALUES.items():
        for seed, value in enumerate(values):
            make_run(tmp_path, {"norm": norm, "depth": number}, seed, value)
    return tmp_path


def draw_seeds(kind, root, made, **options):
    """A figure of runs of one group that have these measures, one each."""
    for seed, measure in enumerate(made):
        make_run(root, {"norm": "gat"}, seed, measures=[measure])
    return draw(kind, read_runs(root), measure=[made[0].name], **options)


def bars(picture):
    """Of every line with error bars: its data line and the half heights of its bars."""
    found = {}
    for axes in picture.panels.values():
        for one in axes.containers:
            halves = []
            for segment in one[2][0].get_segments():  # empty without a bar
                halves.append(np.ptp(segment[:, 1]) / 2 if len(segment) else math.nan)
            found[one.get_label()] = (one[0], halves)
    return found


def band(axes, place=0):
    """The low and the high edge of a band at each x."""
    corners = axes.collections[place].get_paths()[0].vertices
    return {x: (of_x[:, 1].min(), of_x[:, 1].max()) for x in np.unique(corners[:, 0])
            for of_x in [corners[corners[:, 0] == x]]}  # fmt: skip


@pytest.mark.parametrize("spread", ["std", "ci"])
def test_points_are_means_in_percent_and_bars_their_spread(grid, spread):
    found = bars(draw("depth", read_runs(grid), spread=spread))
    for (norm, number), values in VALUES.items():
        line, halves = found[f"norm={norm}"]
        place = line.get_xdata().tolist().index(number)
        assert line.get_ydata()[place] == pytest.approx(100 * statistics.fmean(values))
        half = math.nan
        if len(values) > 1:
            half = 100 * statistics.stdev(values)
            if spread == "ci":
                half *= student.ppf(0.975, len(values) - 1) / math.sqrt(len(values))
        assert halves[place] == pytest.approx(half, nan_ok=True)


def test_the_points_of_two_lines_stand_side_by_side_within_the_axes(grid):
    (axes,) = draw("depth", read_runs(grid)).panels.values()
    axes.figure.draw_without_rendering()
    gat, lip = (one[0].get_transform().transform(one[0].get_xydata()) for one in axes.containers)
    assert (lip[:, 0] - gat[:, 0] >= 4).all()  # pixels
    assert all(axes.bbox.contains(*point) for point in [*gat, *lip])


def test_published_numbers_stand_beside_the_line_that_they_are_of(grid):
    entry = {"source": "A 2020, table 1", "where": {"norm": "lip"}, "over": "depth"}
    entry |= {"interval": "std", "values": {"10": "70 +- 3", "99": 1}}
    path = grid / "published.yaml"
    path.write_text(json.dumps([entry]))
    found = bars(draw("depth", read_runs(grid), published=str(path)))
    line, halves = found["norm=lip, A 2020"]
    assert (line.get_xdata(), line.get_ydata()) == ([10], pytest.approx([70]))
    assert halves == pytest.approx([3])
    assert line.get_color() == found["norm=lip"][0].get_color() != found["norm=gat"][0].get_color()
    assert (line.get_linestyle(), line.get_markerfacecolor()) == ("None", "white")


def first(kind, picture):
    """The first collection of a kind, in the one panel of a picture."""
    (axes,) = picture.panels.values()
    return next(part for part in axes.collections if isinstance(part, kind))


def test_a_heat_map_of_seeds_is_their_median(tmp_path):
    made = [similarity("mu_of_g", seed) for seed in range(3)]
    picture = draw_seeds("heatmap", tmp_path, made)
    cells = first(QuadMesh, picture).get_array()
    assert cells.shape == (5, 6)
    for (layer, step), value in np.ndenumerate(cells):
        assert value == pytest.approx(statistics.median(one.values[step, layer] for one in made))
    edges = first(QuadMesh, picture).get_coordinates()[0, :, 0]
    assert edges.tolist() == list(range(-5, 56, 10))
    assert picture.figure.axes[-1].get_ylabel() == "log₁₀ mu"
    assert "Over seeds, n=3." in picture.notes


def test_runs_measured_at_different_steps_meet_at_those_they_share(tmp_path):
    made = []
    for seed, at in enumerate(([0, 20, 40], [0, 10, 20])):
        values = np.array(at, dtype=float)[:, None] + 100 * seed
        made.append(MeasureValues("mu", np.array(at), values))
    picture = draw_seeds("heatmap", tmp_path, made)
    assert first(QuadMesh, picture).get_array()[0].tolist() == [50, 110, 70, 40]
    assert "Ended earlier than other seeds: 1." in picture.notes


def test_overflow_is_grey_and_an_exact_zero_black_and_both_are_counted(tmp_path):
    values = similarity("mu").values.copy()
    values[0, 0], values[1, :2], values[2, 3] = -np.inf, np.nan, np.inf
    made = [MeasureValues("mu", np.arange(6), values, "mu", log10=True)]
    picture = draw_seeds("heatmap", tmp_path, made)
    drawn = first(QuadMesh, picture)
    finite = values[np.isfinite(values)]
    assert drawn.get_clim() == (finite.min(), finite.max())
    colours = drawn.to_rgba(drawn.get_array())
    assert colours[0, 0].tolist() == [0, 0, 0, 1]
    for place in ((0, 1), (1, 1), (3, 2)):
        assert colours[place].tolist() == [0.6, 0.6, 0.6, 1]
    np.testing.assert_array_equal(drawn.get_array()[4], values[:, 4])
    assert any("zero (in heat maps black): 1." in note for note in picture.notes)
    assert any("Not finite (grey): 3." in note for note in picture.notes)


def test_a_heat_map_does_not_mix_what_differs_in_more_than_the_seed(tmp_path):
    for number in (5, 7):
        make_run(tmp_path, {"depth": number}, measures=[similarity("mu", depth=number)])
    frame = read_runs(tmp_path)
    assert list(draw("heatmap", frame, measure=["mu"]).panels) == ["depth=5", "depth=7"]
    with pytest.raises(ReportError, match=r"depth \(5, 7\): .* --panel depth,"):
        draw("heatmap", frame, measure=["mu"], panel=[])


def test_layers_are_medians_of_seeds_between_the_extremes_of_all_steps(tmp_path):
    made = [similarity("mu", 0), similarity("mu", 1), similarity("mu", 2, steps=3)]
    picture = draw_seeds("layers", tmp_path, made)
    (axes,) = picture.panels.values()
    assert len(axes.lines) == 2
    assert len({line.get_color() for line in axes.lines}) == 1
    edges = band(axes)
    for layer in range(5):
        for line, step in zip(axes.lines, (0, -1)):
            middle = statistics.median(one.values[step, layer] for one in made)
            assert line.get_ydata()[layer] == pytest.approx(middle)
        every = np.concatenate([one.values[:, layer] for one in made])
        assert edges[layer + 1] == pytest.approx((every.min(), every.max()))
    assert "Ended earlier than other seeds: 1." in picture.notes


def test_a_history_is_the_distribution_over_the_neurons_of_all_seeds(tmp_path):
    made = [balance(0), balance(1)]
    picture = draw_seeds("history", tmp_path, made, layers=[3])
    (axes,) = picture.panels.values()
    assert axes.get_title() == "layer 3"
    (line,) = axes.lines
    for step in range(6):
        neurons = sorted(value for one in made for value in one.values[step, 2])
        assert line.get_ydata()[step] == pytest.approx(statistics.fmean(neurons))
        assert band(axes, 0)[step] == pytest.approx((neurons[0], neurons[-1]))
        first, _, third = statistics.quantiles(neurons, n=4, method="inclusive")
        assert band(axes, 1)[step] == pytest.approx((first, third))
    with pytest.raises(ReportError, match="unknown layer '9'.* Available: 1, 2, 3"):
        draw("history", read_runs(tmp_path), measure=["balance"], layers=[9])


def test_a_point_is_a_run_at_its_last_step_where_each_signal_arrives_last(tmp_path):
    expected = []
    for seed in range(3):  # the last one without the metric
        gradients, hidden = similarity("gradients", seed), similarity("hidden", seed + 5)
        expected.append((gradients.values[-1, 0], hidden.values[-1, -1]))
        value = None if seed == 2 else 0.5 + seed / 10
        make_run(tmp_path, {"norm": "gat"}, seed, value, measures=[gradients, hidden])
    frame = read_runs(tmp_path)
    picture = draw("scatter", frame, measure=["gradients", "hidden"])
    np.testing.assert_array_equal(first(PathCollection, picture).get_offsets(), expected)
    np.testing.assert_allclose(first(PathCollection, picture).get_array(), [50, 60, np.nan])
    against_metric = draw("scatter", frame, measure=["gradients"])
    found = first(PathCollection, against_metric).get_offsets().filled(math.nan)
    np.testing.assert_allclose(found[:2], [[expected[0][0], 50], [expected[1][0], 60]])
    assert any("Not finite: 1" in note for note in against_metric.notes)
