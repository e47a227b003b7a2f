"""What figures show: the numbers of a chart against loops over the runs."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from gnn_depth.measurements import MeasureValues
from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.figures import chart, convergence, depth, heatmap, history, layers, scatter
from gnn_depth.reports.figures.charts import stroke
from gnn_depth.reports.figures.grouping import CROWDED, placed
from gnn_depth.reports.load import ReportWarning
from gnn_depth.reports.published import parse_published
from tests.reports.made import balance, make_run, similarity

VALUES = {
    ("gat", 2): [0.8, 0.82, 0.81],
    ("gat", 10): [0.5, 0.7, 0.6],
    ("lip", 2): [0.79, 0.8, 0.84],
    ("lip", 10): [0.77],
}


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    for (norm, number), values in VALUES.items():
        for seed, value in enumerate(values):
            make_run(tmp_path, {"norm": norm, "depth": number}, seed, value)
    return tmp_path


def make_seeds(root: Path, made: Sequence[MeasureValues]) -> Path:
    """Runs of one group that have these measures, one each."""
    for seed, measure in enumerate(made):
        make_run(root, {"norm": "gat"}, seed, measures=[measure])
    return root


def steps(values: np.ndarray) -> MeasureValues:
    return MeasureValues("mu", np.arange(len(values)), values)


@pytest.mark.parametrize("spread", ["std", "ci"])
def test_lines_are_means_in_percent_and_bands_their_spread(grid, spread):
    (panel,) = depth(read_runs(grid), spread=spread).panels
    for line in panel.lines:
        for place, number in enumerate((2, 10)):
            values = [100 * value for value in VALUES[line.label, number]]
            assert line.x[place] == number
            assert line.y[place] == pytest.approx(sum(values) / len(values))
            low, high = line.bands[0][0][place], line.bands[0][1][place]
            if len(values) == 1:
                assert np.isnan([low, high]).all()
                continue
            half = statistics.stdev(values)
            if spread == "ci":
                half *= student.ppf(0.975, len(values) - 1) / math.sqrt(len(values))
            assert low == pytest.approx(line.y[place] - half)
            assert high == pytest.approx(line.y[place] + half)
    (panel,) = chart("depth", read_runs(grid), line="norm", spread="none").panels
    assert not any(line.bands for line in panel.lines)


def test_published_numbers_stand_beside_the_line_that_they_are_of_and_nothing_connects_them(grid):
    of_lip = {"where": {"norm": "lip"}, "over": "depth"}
    entries = [
        of_lip | {"source": "A 2020, table 1", "interval": "std", "values": {10: "70 +- 3"}},
        of_lip | {"source": "B 2021, table 2", "values": {10: 60, 2: 75, 99: 1}},
    ]
    (panel,) = depth(read_runs(grid), published=parse_published(entries)).panels
    ours = {line.label: line for line in panel.lines}
    first, second = ours["lip, A 2020"], ours["lip, B 2021"]
    assert (first.x.tolist(), first.y.tolist()) == ([10], [pytest.approx(70)])
    assert (first.bands[0][0][0], first.bands[0][1][0]) == (pytest.approx(67), pytest.approx(73))
    assert (second.x.tolist(), second.bands) == ([2, 10], ())
    assert second.y.tolist() == pytest.approx([75, 60])
    strokes = [stroke(line.style) for line in (ours["lip"], first, second)]
    assert len({pen.colour for pen in strokes}) == 1
    assert len({pen.marker for pen in strokes}) == 3
    assert {line.part for line in (first, second)} == {"published"}
    assert stroke(ours["gat"].style).colour != strokes[0].colour


def test_a_diverged_run_counts_with_its_value_and_an_accident_does_not(tmp_path):
    ends = [(0.8, "finished"), (0.4, "diverged"), (None, "diverged"), (0.1, "failed")]
    for seed, (value, status) in enumerate(ends):
        make_run(tmp_path, {"depth": 2}, seed, value, status)
    make_run(tmp_path, {"depth": 30}, 0, None, "diverged")
    drawn = depth(read_runs(tmp_path))
    np.testing.assert_allclose(drawn.panels[0].lines[0].y, [60, np.nan])
    said = ("3 of 4 runs diverged.", "Left out: 1 failed.", "depth 30 (1 diverged)")
    assert all(part in drawn.caption for part in said)


def test_a_combination_that_nobody_ran_is_no_gap_in_the_line(tmp_path):
    for norm, numbers in (("gat", (2, 5, 10)), ("lip", (2, 10))):
        for number in numbers:
            make_run(tmp_path, {"norm": norm, "depth": number})
    drawn = depth(read_runs(tmp_path))
    assert "Without a value" not in drawn.caption
    lines = {line.label: line.x.tolist() for line in drawn.panels[0].lines}
    assert lines == {"gat": [2, 5, 10], "lip": [2, 10]}


@given(st.lists(st.integers(1, 200), min_size=2, max_size=8, unique=True))
def test_numbers_are_placed_at_their_values_and_no_two_ticks_collide(values):
    axis, places = placed("model.num_layers", [str(value) for value in sorted(values)])
    assert places == sorted(values)
    assert axis.label == "layers"
    ticks = np.array([place for place, _ in axis.ticks])
    scaled = np.log(ticks) if axis.log else ticks
    assert (np.diff(scaled) >= CROWDED * (scaled[-1] - scaled[0]) - 1e-12).all()


def test_powers_of_two_get_a_logarithmic_axis_and_the_papers_depths_do_not():
    assert placed("depth", ["2", "4", "8", "16", "32", "64", "128"])[0].log
    assert not placed("depth", ["1", "5", "10", "15", "20", "25", "30", "35"])[0].log


@pytest.mark.parametrize(
    ("options", "message"),
    [({"line": ["depth"]}, "'depth' is used twice"), ({"spread": "sd"}, "Did you mean 'std'?")],
)
def test_what_does_not_exist_is_answered_with_what_does(grid, options, message):
    with pytest.raises(ReportError) as error:
        chart("depth", read_runs(grid), **options)
    assert message in str(error.value)


def test_a_heat_map_of_seeds_is_their_median(tmp_path):
    made = [similarity("mu_of_g", seed) for seed in range(3)]
    drawn = heatmap(read_runs(make_seeds(tmp_path, made)))
    panel = drawn.panels[0].map
    assert panel.values.shape == (5, 6)
    for (layer, step), value in np.ndenumerate(panel.values):
        every = [measure.values[step, layer] for measure in made]
        assert value == pytest.approx(statistics.median(every))
    assert panel.x.tolist() == [0, 10, 20, 30, 40, 50]
    assert drawn.colour.label == "log₁₀ mu"
    assert "Median over seeds, n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}3." in drawn.caption


def test_a_run_that_diverged_before_anything_was_measured_is_counted(tmp_path):
    empty = MeasureValues("mu", np.zeros(0, dtype=int), np.zeros((0, 5)), "mu", log10=True)
    make_run(tmp_path, {"depth": 5}, 1, None, "diverged", measures=[empty])
    make_run(tmp_path, {"depth": 5}, 2, None, "diverged")
    with pytest.raises(ReportError, match="no run came to a step"):
        heatmap(read_runs(tmp_path))
    make_run(tmp_path, {"depth": 5}, 0, measures=[similarity("mu")])
    drawn = heatmap(read_runs(tmp_path))
    assert pytest.approx(similarity("mu").values) == drawn.panels[0].map.values.T
    assert "Without this measure: 2" in drawn.caption


def test_runs_measured_at_different_steps_meet_at_those_they_share(tmp_path):
    made = []
    for seed, at in enumerate(([0, 20, 40], [0, 10, 20])):
        values = np.array(at, dtype=float)[:, None] + 100 * seed
        made.append(MeasureValues("mu", np.array(at), values))
    drawn = heatmap(read_runs(make_seeds(tmp_path, made)))
    panel = drawn.panels[0].map
    assert dict(zip(panel.x, panel.values[0])) == {0: 50, 10: 110, 20: 70, 40: 40}
    assert "other seeds: 1 run." in drawn.caption


def test_overflow_and_exact_zeros_are_counted_apart(tmp_path):
    values = similarity("mu").values.copy()
    values[0, 0], values[1, :2], values[2, 3] = -np.inf, np.nan, np.inf
    make_seeds(tmp_path, [MeasureValues("mu", np.arange(6), values, "mu", log10=True)])
    drawn = heatmap(read_runs(tmp_path))
    assert drawn.panels[0].map.log10
    assert np.isneginf(drawn.panels[0].map.values[0, 0])
    assert all(part in drawn.caption for part in ("1 of 30 values. ", "Not finite: 3 of 30"))


def test_a_measure_around_zero_stays_so_on_the_way_from_its_file_to_its_colours(tmp_path):
    layers = np.arange(1, 6)
    for name, around_zero in (("growth", True), ("norm", False)):
        values = MeasureValues(
            name, np.arange(2), np.full((2, 5), 3.0), "r", True, layers, around_zero
        )
        make_run(tmp_path / name, {"depth": 5}, 0, measures=[values])
        scale = heatmap(read_runs(tmp_path / name)).colours
        assert (scale.name, scale.low + scale.high == 0) == (
            ("RdBu_r", True) if around_zero else ("viridis", False)
        )


def test_a_heat_map_does_not_mix_what_differs_in_more_than_the_seed(tmp_path):
    for number in (5, 7):
        make_run(tmp_path, {"depth": number}, measures=[similarity("mu", depth=number)])
    frame = read_runs(tmp_path)
    assert [panel.title for panel in heatmap(frame).panels] == ["depth=5", "depth=7"]
    with pytest.raises(ReportError, match=r"depth \(5, 7\): .* --panel depth,"):
        heatmap(frame, panel=[])


def test_seeds_whose_layers_differ_are_refused_by_their_folders(tmp_path):
    make_seeds(tmp_path, [similarity("mu", depth=5), similarity("mu", depth=6)])
    frame = read_runs(tmp_path)
    with pytest.raises(ReportError, match="other layers, neurons or units") as error:
        heatmap(frame)
    assert all(folder in str(error.value) for folder in frame["folder"])


def test_one_measure_is_shown_and_the_others_are_named(tmp_path):
    make_run(tmp_path, {"depth": 3}, measures=[balance(), similarity("mu")])
    frame = read_runs(tmp_path)
    with pytest.warns(ReportWarning, match="one measure, balance.* --measure mu"):
        chosen = heatmap(frame)
    assert chosen.colour == heatmap(frame, ["balance"]).colour
    with pytest.raises(ReportError, match="'balanc'.*'balance'"):
        heatmap(frame, ["balanc"])
    with pytest.raises(ReportError, match="--measure names 2"):
        heatmap(frame, ["balance", "mu"])


def test_what_differs_between_single_fits_gets_a_line_or_a_panel(tmp_path):
    for number in (3, 5):
        for seed in range(2):
            own = {"axes": {}, "hparams": {"model.num_layers": number, "seed_everything": seed}}
            own["identity"] = f"{number} {seed}"
            parts = {"curves": {"val/acc": [0.1, 0.2]}, "measures": [similarity("mu", seed)]}
            make_run(tmp_path, {}, seed, result=own, suffix=f"{number}", **parts)
    frame = read_runs(tmp_path)
    assert [panel.title for panel in heatmap(frame).panels] == ["layers=3", "layers=5"]
    (panel,) = convergence(frame).panels
    assert [line.label for line in panel.lines] == ["3", "5"]
    (panel,) = depth(frame).panels
    assert panel.lines[0].x.tolist() == [3, 5]


@pytest.mark.parametrize("when", ["both", "start", "end"])
def test_layers_are_medians_of_seeds_between_the_extremes_of_what_is_shown(tmp_path, when):
    made = [similarity("mu", 0), similarity("mu", 1), similarity("mu", 2, steps=3)]
    drawn = layers(read_runs(make_seeds(tmp_path, made)), when=when)
    lines = {line.part: line for line in drawn.panels[0].lines}
    shown = {"start": 0, "end": -1}
    if when == "both":
        assert lines["start"].style == lines["end"].style
        banded = lines["end"]
    else:
        banded = lines[when] = lines.pop("whole")
        shown = {when: shown[when]}
        assert f"At the {'first' if when == 'start' else 'last'} measured step." in drawn.caption
    assert lines.keys() == shown.keys()
    for layer in range(5):
        for part, step in shown.items():
            middle = statistics.median(one.values[step, layer] for one in made)
            assert lines[part].y[layer] == pytest.approx(middle)
        at = slice(None) if when == "both" else [shown[when]]
        every = np.concatenate([one.values[at, layer] for one in made])
        assert banded.bands[0][0][layer] == every.min()
        assert banded.bands[0][1][layer] == every.max()


def test_a_history_is_the_distribution_over_the_neurons_of_all_seeds(tmp_path):
    made = [balance(0), balance(1)]
    (panel,) = history(read_runs(make_seeds(tmp_path, made)), layers=[3]).panels
    assert panel.title == "layer 3"
    (line,) = panel.lines
    for step in range(6):
        neurons = sorted(value for one in made for value in one.values[step, 2])
        assert line.y[step] == pytest.approx(statistics.fmean(neurons))
        assert (line.bands[0][0][step], line.bands[0][1][step]) == (neurons[0], neurons[-1])
        first, _, third = statistics.quantiles(neurons, n=4, method="inclusive")
        quartiles = line.bands[1][0][step], line.bands[1][1][step]
        assert quartiles == pytest.approx((first, third))


def test_curves_are_means_up_to_where_the_first_run_finished(tmp_path):
    made = [[0.1, 0.4, 0.6, 0.7], [0.3, 0.5, 0.8], [0.2, math.nan]]
    for seed, values in enumerate(made):
        status = "diverged" if seed == 2 else "finished"
        make_run(tmp_path, {"depth": 2}, seed, 0.5, status, {"val/acc": values})
    drawn = convergence(read_runs(tmp_path))
    (line,) = drawn.panels[0].lines
    assert line.x.tolist() == [0, 1, 2]
    for epoch in range(3):
        there = [100 * one[epoch] for one in made if epoch < len(one)]
        there = [value for value in there if not math.isnan(value)]
        mean, deviation = statistics.fmean(there), statistics.stdev(there)
        assert line.y[epoch] == pytest.approx(mean)
        assert line.bands[0][1][epoch] == pytest.approx(mean + deviation)
    assert "the first of its runs" in drawn.caption


def test_a_line_has_the_same_style_in_every_panel(tmp_path):
    for data, norm in (("Cora", "gat"), ("Cora", "lip"), ("PubMed", "lip")):
        axes = {"data": data, "norm": norm, "depth": 2}
        make_run(tmp_path, axes, curves={"val/acc": [0.1, 0.2]})
    for kind in (convergence, depth):
        cora, pubmed = kind(read_runs(tmp_path), panel=["data"]).panels
        assert (cora.title, pubmed.title) == ("data=Cora", "data=PubMed")
        assert [(line.label, line.style) for line in cora.lines] == [("gat", 0), ("lip", 1)]
        assert [(line.label, line.style) for line in pubmed.lines if len(line.x)] == [("lip", 1)]


def test_a_loss_of_exactly_zero_leaves_the_axis_logarithmic_beside_a_run_that_diverged(tmp_path):
    curves = {"train/loss": [1.0, 0.01, 0.0]}
    make_run(tmp_path, {"norm": "lip"}, 0, curves=curves)
    curves = {"train/loss": [2.0, 5e13, math.inf]}
    make_run(tmp_path, {"norm": "none"}, 0, None, "diverged", curves=curves)
    drawn = convergence(read_runs(tmp_path), tag="train/loss")
    assert drawn.y.log
    by_label = {line.label: line.y.tolist() for line in drawn.panels[0].lines}
    assert by_label["none"][:2] == [2.0, 5e13]
    assert by_label["lip"][:2] == [1.0, 0.01]
    assert "Exactly zero, and not drawn: 1 of 6 values." in drawn.caption
    assert "1 of 2 runs diverged" in drawn.caption


def make_points(root: Path, *names: str) -> list[list[MeasureValues]]:
    """Three runs with these measures, the last without the metric; returns the measures."""
    made = []
    for seed in range(3):
        made.append([similarity(name, seed + 5 * place) for place, name in enumerate(names)])
        value = None if seed == 2 else 0.5 + seed / 10
        make_run(root, {"norm": "gat"}, seed, value, measures=made[-1])
    return made


def test_a_point_of_a_scatter_is_a_run_at_its_last_step(tmp_path):
    made = make_points(tmp_path, "gradients", "hidden")
    (points,) = scatter(read_runs(tmp_path)).panels[0].points
    assert points.x.tolist() == [hidden.values[-1, -1] for _, hidden in made]
    assert points.y.tolist() == [gradients.values[-1, 0] for gradients, _ in made]
    np.testing.assert_allclose(points.colour, [50, 60, np.nan])
    mean = scatter(read_runs(tmp_path), at=["mean", "last"]).panels[0].points[0]
    assert mean.x[0] == pytest.approx(made[0][1].values[-1].mean())


def test_each_measure_of_a_scatter_is_taken_where_its_own_signal_arrives_last(tmp_path):
    made = make_points(tmp_path, "hidden", "rank", "gradients")
    frame = read_runs(tmp_path)
    (points,) = scatter(frame, ["hidden", "rank"]).panels[0].points
    assert points.x.tolist() == [hidden.values[-1, -1] for hidden, _, _ in made]
    assert points.y.tolist() == [rank.values[-1, -1] for _, rank, _ in made]
    drawn = scatter(frame, ["gradients", "hidden"])
    (points,) = drawn.panels[0].points
    assert points.x.tolist() == [gradients.values[-1, 0] for _, _, gradients in made]
    assert points.y.tolist() == [hidden.values[-1, -1] for hidden, _, _ in made]
    assert drawn.x.label.endswith("first layer")
    assert drawn.y.label.endswith("last layer")


def test_a_scatter_does_not_mix_units(tmp_path):
    for seed, unit in enumerate(("mu", "bits")):
        one = replace(similarity("hidden", seed), unit=unit)
        make_run(tmp_path, {"norm": "gat"}, seed, 0.5, measures=[one])
    with pytest.raises(ReportError, match="'hidden' has several units: log₁₀ bits, log₁₀ mu"):
        scatter(read_runs(tmp_path))


@pytest.mark.parametrize(("when", "is_said"), [("start", False), ("end", True), ("both", True)])
def test_a_run_that_ended_earlier_is_counted_where_its_end_is_shown(tmp_path, when, is_said):
    for seed, count in enumerate((5, 3)):
        one = similarity("hidden", seed)
        one = replace(one, steps=one.steps[:count], values=one.values[:count])
        make_run(tmp_path, {"norm": "gat"}, seed, 0.5, measures=[one])
    caption = layers(read_runs(tmp_path), when=when).caption
    assert ("Ended earlier than other seeds: 1 run." in caption) == is_said


def test_of_a_single_measure_a_scatter_has_the_metric_upwards(tmp_path):
    name = "gradient_similarity"  # gradients are taken at the first layer, states at the last
    made = make_points(tmp_path, name)
    frame = read_runs(tmp_path)
    drawn = scatter(frame)
    (points,) = drawn.panels[0].points
    assert points.x.tolist() == [one.values[-1, 0] for (one,) in made]
    np.testing.assert_allclose(points.y, [50, 60, np.nan])
    assert drawn.colour is None
    assert "not finite: 1 of 3 runs." in drawn.caption
    mean = scatter(frame, [name], at=["mean"]).panels[0].points[0]
    assert mean.x[0] == pytest.approx(made[0][0].values[-1].mean())
    with pytest.raises(ReportError, match="2 layers for 1 measure"):
        scatter(frame, [name], at=["first", "last"])
