"""What figures show: the numbers of a chart against loops over the runs."""

import math
import statistics
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from gnn_depth.measurements import MeasureValues
from gnn_depth.reports import ReportError, load
from gnn_depth.reports.figures import chart, convergence, depth, heatmap, history, layers, scatter
from gnn_depth.reports.figures.charts import areas_and_bars, stretches, stroke
from gnn_depth.reports.figures.groups import CROWDED, placed
from gnn_depth.reports.load import ReportWarning
from gnn_depth.reports.published import parse
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


@pytest.mark.parametrize("spread", ["std", "ci"])
def test_lines_are_means_in_percent_and_bands_their_spread(grid, spread):
    assert not any(
        line.bands
        for line in chart("depth", load(grid), line="norm", spread="none").panels[0].lines
    )
    (panel,) = depth(load(grid), spread=spread).panels
    for line in panel.lines:
        for place, number in enumerate((2, 10)):
            values = [100 * value for value in VALUES[line.label, number]]
            assert line.x[place] == number
            assert line.y[place] == pytest.approx(sum(values) / len(values))
            edges = line.bands[0][0][place], line.bands[0][1][place]
            if len(values) == 1:
                assert np.isnan(edges).all()
                continue
            half = statistics.stdev(values)
            if spread == "ci":
                half *= student.ppf(0.975, len(values) - 1) / math.sqrt(len(values))
            assert edges == (
                pytest.approx(line.y[place] - half),
                pytest.approx(line.y[place] + half),
            )


def test_published_numbers_stand_beside_the_line_that_they_are_of_and_nothing_connects_them(grid):
    entries = [
        {
            "source": "A 2020, table 1",
            "interval": "std",
            "where": {"norm": "lip"},
            "over": "depth",
            "values": {10: "70 +- 3"},
        },
        {
            "source": "B 2021, table 2",
            "where": {"norm": "lip"},
            "over": "depth",
            "values": {10: 60, 2: 75, 99: 1},
        },
    ]
    (panel,) = depth(load(grid), published=parse(entries)).panels
    ours = {line.label: line for line in panel.lines}
    first, second = ours["lip, A 2020"], ours["lip, B 2021"]
    assert (first.x.tolist(), first.y.tolist()) == ([10], [pytest.approx(70)])
    assert (first.bands[0][0][0], first.bands[0][1][0]) == (pytest.approx(67), pytest.approx(73))
    assert (second.x.tolist(), second.y.tolist(), second.bands) == (
        [2, 10],
        [pytest.approx(75), pytest.approx(60)],
        (),
    )
    strokes = [stroke(line.style) for line in (ours["lip"], first, second)]
    assert len({pen.colour for pen in strokes}) == 1
    assert len({pen.marker for pen in strokes}) == 3
    assert {line.part for line in (first, second)} == {"published"}
    assert stroke(ours["gat"].style).colour != strokes[0].colour


def test_a_diverged_run_counts_with_its_value_and_an_accident_does_not(tmp_path):
    for seed, (value, status) in enumerate(
        [(0.8, "finished"), (0.4, "diverged"), (None, "diverged"), (0.1, "failed")]
    ):
        make_run(tmp_path, {"depth": 2}, seed, value, status)
    make_run(tmp_path, {"depth": 30}, 0, None, "diverged")
    drawn = depth(load(tmp_path))
    np.testing.assert_allclose(drawn.panels[0].lines[0].y, [60, np.nan])
    assert (
        "3 of 4 runs diverged. Left out: 1 failed. Without a value: depth 30 (1 diverged)."
        in drawn.caption
    )


def test_a_combination_that_nobody_ran_is_no_gap_in_the_line(tmp_path):
    for norm, numbers in (("gat", (2, 5, 10)), ("lip", (2, 10))):
        for number in numbers:
            make_run(tmp_path, {"norm": norm, "depth": number})
    drawn = depth(load(tmp_path))
    assert "Without a value" not in drawn.caption
    lines = {line.label: line.x.tolist() for line in drawn.panels[0].lines}
    assert lines == {"gat": [2, 5, 10], "lip": [2, 10]}


def test_panels_keep_the_style_of_a_line_and_the_notes_name_the_folders(tmp_path):
    for data in ("Cora", "CiteSeer"):
        for norm in ("gat", "lip"):
            make_run(tmp_path, {"data": data, "norm": norm, "depth": 2})
    drawn = depth(load(tmp_path), panel=["data"])
    assert [panel.title for panel in drawn.panels] == ["data=CiteSeer", "data=Cora"]
    styles = [{line.label: line.style for line in panel.lines} for panel in drawn.panels]
    assert styles[0] == styles[1] == {"gat": 0, "lip": 1}
    note = drawn.panels[1].lines[1].notes[0]
    assert note.startswith("n = 1\n")
    assert str(tmp_path / "grid" / "data=Cora,norm=lip,depth=2") in note


def test_values_that_are_no_numbers_stand_side_by_side(tmp_path):
    for init in ("xavier", "balanced"):
        for norm in ("gat", "lip"):
            make_run(tmp_path, {"init": init, "norm": norm})
    drawn = depth(load(tmp_path), x="init")
    assert drawn.x.categories
    first, second = drawn.panels[0].lines
    assert first.x.tolist() == [pytest.approx(-0.06), pytest.approx(0.94)]
    assert (second.x - first.x).tolist() == [pytest.approx(0.12)] * 2


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
        chart("depth", load(grid), **options)
    assert message in str(error.value)


def test_no_result_at_all_says_what_became_of_the_runs(tmp_path):
    make_run(tmp_path, {"depth": 2}, 0, None, "failed")
    make_run(tmp_path, {"depth": 2}, 1, None, "running")
    for draw in (depth, heatmap, convergence):
        with pytest.raises(ReportError, match="1 failed, 1 running"):
            draw(load(tmp_path))


def test_a_heat_map_of_seeds_is_their_median(tmp_path):
    made = [similarity("mu_of_g", seed) for seed in range(3)]
    for seed, measure in enumerate(made):
        make_run(tmp_path, {"depth": 5}, seed, measures=[measure])
    drawn = heatmap(load(tmp_path))
    panel = drawn.panels[0].map
    assert panel.values.shape == (5, 6)
    for layer in range(5):
        for step in range(6):
            middle = statistics.median(measure.values[step, layer] for measure in made)
            assert panel.values[layer, step] == pytest.approx(middle)
    assert panel.x.tolist() == [0, 10, 20, 30, 40, 50]
    assert drawn.colour.label == "log₁₀ mu"
    assert "Median over seeds, n\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}3." in drawn.caption


def test_a_run_that_diverged_before_anything_was_measured_is_counted(tmp_path):
    empty = MeasureValues("mu", np.zeros(0, dtype=int), np.zeros((0, 5)), "mu", log10=True)
    make_run(tmp_path, {"depth": 5}, 0, measures=[similarity("mu")])
    make_run(tmp_path, {"depth": 5}, 1, None, "diverged", measures=[empty])
    make_run(tmp_path, {"depth": 5}, 2, None, "diverged")
    drawn = heatmap(load(tmp_path))
    assert pytest.approx(similarity("mu").values) == drawn.panels[0].map.values.T
    assert "Without this measure: 2" in drawn.caption


def test_runs_measured_at_different_steps_meet_at_those_they_share(tmp_path):
    for seed, steps in enumerate(([0, 20, 40], [0, 10, 20])):
        values = np.array(steps, dtype=float)[:, None] + 100 * seed
        make_run(
            tmp_path, {"depth": 1}, seed, measures=[MeasureValues("mu", np.array(steps), values)]
        )
    drawn = heatmap(load(tmp_path))
    panel = drawn.panels[0].map
    assert dict(zip(panel.x, panel.values[0])) == {0: 50, 10: 110, 20: 70, 40: 40}
    assert "other seeds: 1 run." in drawn.caption


def test_overflow_and_exact_zeros_are_counted_apart(tmp_path):
    values = similarity("mu").values.copy()
    values[0, 0], values[1, :2], values[2, 3] = -np.inf, np.nan, np.inf
    make_run(
        tmp_path, {"depth": 5}, measures=[MeasureValues("mu", np.arange(6), values, "mu", log10=True)]
    )
    drawn = heatmap(load(tmp_path))
    assert drawn.panels[0].map.log10
    assert np.isneginf(drawn.panels[0].map.values[0, 0])
    assert all(part in drawn.caption for part in ("1 of 30 values. ", "Not finite: 3 of 30"))


def test_a_heat_map_does_not_mix_what_differs_in_more_than_the_seed(tmp_path):
    for number in (5, 7):
        make_run(tmp_path, {"depth": number}, measures=[similarity("mu", depth=number)])
    assert [panel.title for panel in heatmap(load(tmp_path)).panels] == ["depth=5", "depth=7"]
    with pytest.raises(ReportError, match=r"depth \(5, 7\): .* --panel depth,"):
        heatmap(load(tmp_path), panel=[])


def test_seeds_whose_layers_differ_are_refused(tmp_path):
    first = make_run(tmp_path, {"depth": 5}, 0, measures=[similarity("mu", depth=5)])
    second = make_run(tmp_path, {"depth": 5}, 1, measures=[similarity("mu", depth=6)])
    with pytest.raises(ReportError, match="other layers, neurons or units") as error:
        heatmap(load(tmp_path))
    assert str(first) in str(error.value)
    assert str(second) in str(error.value)


def test_one_measure_is_shown_and_the_others_are_named(tmp_path):
    make_run(tmp_path, {"depth": 3}, measures=[balance(), similarity("mu")])
    frame = load(tmp_path)
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
            parts = {
                "curves": {"val/acc": [0.1, 0.2]},
                "measures": [similarity("mu", seed, depth=number)],
            }
            make_run(tmp_path, {}, seed, result=own, suffix=f"{number}", **parts)
    frame = load(tmp_path)
    assert [panel.title for panel in heatmap(frame).panels] == ["layers=3", "layers=5"]
    (panel,) = convergence(frame).panels
    assert [line.label for line in panel.lines] == ["3", "5"]
    (panel,) = depth(frame).panels
    assert panel.lines[0].x.tolist() == [3, 5]


def test_layers_have_start_end_and_all_between(tmp_path):
    made = [similarity("mu", 0), similarity("mu", 1), similarity("mu", 2, steps=3)]
    for seed, measure in enumerate(made):
        make_run(tmp_path, {"norm": "gat"}, seed, measures=[measure])
    lines = {line.part: line for line in layers(load(tmp_path)).panels[0].lines}
    for layer in range(5):
        assert lines["start"].y[layer] == pytest.approx(
            statistics.median(one.values[0, layer] for one in made)
        )
        assert lines["end"].y[layer] == pytest.approx(
            statistics.median(one.values[-1, layer] for one in made)
        )
        every = [value for one in made for value in one.values[:, layer]]
        assert lines["end"].bands[0][0][layer] == min(every)
        assert lines["end"].bands[0][1][layer] == max(every)
    assert lines["start"].style == lines["end"].style


@pytest.mark.parametrize(("when", "place"), [("start", 0), ("end", -1)])
def test_layers_at_one_time_are_medians_between_all_seeds(tmp_path, when, place):
    made = [similarity("mu", 0), similarity("mu", 1), similarity("mu", 2, steps=3)]
    for seed, measure in enumerate(made):
        make_run(tmp_path, {"norm": "gat"}, seed, measures=[measure])
    drawn = layers(load(tmp_path), when=when)
    (line,) = drawn.panels[0].lines
    assert line.part == "whole"
    for layer in range(5):
        values = [one.values[place, layer] for one in made]
        assert line.y[layer] == pytest.approx(statistics.median(values))
        assert (line.bands[0][0][layer], line.bands[0][1][layer]) == (min(values), max(values))
    assert f"At the {'first' if when == 'start' else 'last'} measured step." in drawn.caption


def test_layers_of_one_run_at_one_time_have_no_band_and_gaps_where_nothing_is_finite(tmp_path):
    values = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
    make_run(tmp_path, {"activation": "relu"}, measures=[MeasureValues("mu", np.arange(2), values)])
    drawn = layers(load(tmp_path), when="start")
    (line,) = drawn.panels[0].lines
    np.testing.assert_array_equal(line.y, [1, np.nan, 3])
    assert not line.bands
    assert "Not finite: 1 of 3 values." in drawn.caption


def test_a_history_is_the_distribution_over_the_neurons_of_all_seeds(tmp_path):
    made = [balance(0), balance(1)]
    for seed, measure in enumerate(made):
        make_run(tmp_path, {"init": "xavier"}, seed, measures=[measure])
    drawn = history(load(tmp_path), layers=[3])
    ((line,),) = (panel.lines for panel in drawn.panels)
    assert [panel.title for panel in drawn.panels] == ["layer 3"]
    for step in range(6):
        neurons = sorted(value for one in made for value in one.values[step, 2])
        assert line.y[step] == pytest.approx(statistics.fmean(neurons))
        assert (line.bands[0][0][step], line.bands[0][1][step]) == (neurons[0], neurons[-1])
        first, _, third = statistics.quantiles(neurons, n=4, method="inclusive")
        assert (line.bands[1][0][step], line.bands[1][1][step]) == (
            pytest.approx(first),
            pytest.approx(third),
        )


def test_of_many_layers_a_history_shows_six_from_the_first_to_the_last(tmp_path):
    make_run(tmp_path, {"depth": 33}, measures=[similarity("mu", depth=33)])
    drawn = history(load(tmp_path))
    assert [panel.title for panel in drawn.panels] == [
        f"layer {layer}" for layer in (1, 7, 14, 20, 27, 33)
    ]
    assert not drawn.panels[0].lines[0].bands, "one value has no distribution"
    assert drawn.caption == "Layers shown: 1, 7, 14, 20, 27, 33 of 33."
    with pytest.raises(ReportError, match=r"layer 34 .* 1 to 33"):
        history(load(tmp_path), layers=[34])


def test_curves_are_means_up_to_where_the_first_run_finished(tmp_path):
    made = [[0.1, 0.4, 0.6, 0.7], [0.3, 0.5, 0.8], [0.2, math.nan]]
    for seed, values in enumerate(made):
        make_run(
            tmp_path,
            {"depth": 2},
            seed,
            0.5,
            "diverged" if seed == 2 else "finished",
            {"val/acc": values},
        )
    drawn = convergence(load(tmp_path))
    (line,) = drawn.panels[0].lines
    assert line.x.tolist() == [0, 1, 2]
    for epoch in range(3):
        there = [
            100 * one[epoch] for one in made if epoch < len(one) and not math.isnan(one[epoch])
        ]
        assert line.y[epoch] == pytest.approx(statistics.fmean(there))
        assert line.bands[0][1][epoch] == pytest.approx(
            statistics.fmean(there) + statistics.stdev(there)
        )
    assert "the first of its runs" in drawn.caption


def test_a_line_has_the_same_style_in_every_panel(tmp_path):
    for data, norm in (("Cora", "gat"), ("Cora", "lip"), ("PubMed", "lip")):
        make_run(tmp_path, {"data": data, "norm": norm}, curves={"val/acc": [0.1, 0.2]})
    cora, pubmed = convergence(load(tmp_path), panel=["data"]).panels
    assert [(line.label, line.style) for line in cora.lines] == [("gat", 0), ("lip", 1)]
    assert [(line.label, line.style) for line in pubmed.lines] == [("lip", 1)]


def test_a_loss_over_decades_gets_a_logarithmic_axis_and_its_band_stays_positive(tmp_path):
    for seed, low in enumerate((1e-4, 1e-1)):
        make_run(tmp_path, {"depth": 2}, seed, curves={"val/loss": [1000.0, 1.0, low]})
    drawn = convergence(load(tmp_path), tag="val/loss")
    assert drawn.y.log
    assert (drawn.panels[0].lines[0].bands[0][0] > 0).all()
    assert not convergence(load(tmp_path), tag="val/loss", spread="none").panels[0].lines[0].bands


def test_a_point_of_a_scatter_is_a_run_at_its_last_step(tmp_path):
    for seed in range(3):
        measures = [similarity("gradients", seed), similarity("hidden", seed + 5)]
        make_run(
            tmp_path,
            {"norm": "gat"},
            seed,
            None if seed == 2 else 0.5 + seed / 10,
            measures=measures,
        )
    drawn = scatter(load(tmp_path))
    (points,) = drawn.panels[0].points
    assert points.x.tolist() == [similarity("hidden", seed + 5).values[-1, -1] for seed in range(3)]
    assert points.y.tolist() == [similarity("gradients", seed).values[-1, 0] for seed in range(3)]
    assert points.colour[:2].tolist() == [pytest.approx(50), pytest.approx(60)]
    assert np.isnan(points.colour[2])
    mean = scatter(load(tmp_path), at=["mean", "last"]).panels[0].points[0]
    assert mean.x[0] == pytest.approx(similarity("hidden", 5).values[-1].mean())


def test_of_a_single_measure_a_scatter_has_the_metric_upwards(tmp_path):
    name, place = "gradient_similarity", 0  # of gradients the first layer, of states the last
    for seed in range(3):
        make_run(
            tmp_path,
            {"norm": "gat"},
            seed,
            None if seed == 2 else 0.5 + seed / 10,
            measures=[similarity(name, seed)],
        )
    frame = load(tmp_path)
    drawn = scatter(frame)
    (points,) = drawn.panels[0].points
    assert points.x.tolist() == [similarity(name, seed).values[-1, place] for seed in range(3)]
    assert points.y[:2].tolist() == [pytest.approx(50), pytest.approx(60)]
    assert np.isnan(points.y[2])
    assert drawn.colour is None
    assert "not finite: 1 of 3 runs." in drawn.caption
    assert scatter(frame, [name], at=["mean"]).panels[0].points[0].x[0] == pytest.approx(
        similarity(name, 0).values[-1].mean()
    )
    with pytest.raises(ReportError, match="2 layers for 1 measure"):
        scatter(frame, [name], at=["first", "last"])


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_stretches_are_the_places_that_are_there_and_as_long_as_can_be(there):
    places = np.array(there, dtype=bool)
    found = stretches(places)
    assert [place for part in found for place in range(part.start, part.stop)] == np.flatnonzero(
        places
    ).tolist()
    assert all(after.start > before.stop for before, after in pairwise(found))
    edge = np.where(places, 1.0, np.nan)
    areas, bars = areas_and_bars(edge, edge, apart=False)
    assert {part.stop - part.start for part in areas}.isdisjoint({1})
    inside = [place for part in areas for place in range(part.start, part.stop)]
    assert sorted(inside + bars) == np.flatnonzero(places).tolist()
    assert areas_and_bars(edge, edge, apart=True) == ([], np.flatnonzero(places).tolist())
