import math
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.reports import ReportError, load
from gnn_depth.reports.tabulate import arrange, tabulate
from tests.reports.conftest import METRIC, cell


def test_a_cell_is_the_mean_and_spread_over_its_seeds(run: Callable, runs: Path):
    values = {("2", "none"): [0.5, 0.75, 0.25], ("2", "pair"): [0.5, 0.5], ("10", "none"): [0.125]}
    for (depth, norm), seeds in values.items():
        for seed, value in enumerate(seeds):
            run(value, seed, depth=int(depth), norm=norm)
    table = tabulate(load(runs), "depth", "norm")
    for (depth, norm), seeds in values.items():
        found = table.cell((depth,), (norm,))
        mean = sum(seeds) / len(seeds)
        assert (found.mean, found.n) == (mean, len(seeds))
        assert found.by_seed == dict(enumerate(seeds))
        if len(seeds) > 1:
            variance = sum((value - mean) ** 2 for value in seeds) / (len(seeds) - 1)
            assert found.half_width("std") == pytest.approx(math.sqrt(variance))
    assert table.cell(("10",), ("none",)).half_width("std") is None
    assert table.cell(("10",), ("pair",)).runs == ()


def test_the_confidence_interval_is_that_of_students_t():
    # t(0.975, 4) = 2.776445: any table of the t distribution
    values = [0.70, 0.72, 0.74, 0.76, 0.78]
    expected = 2.776445 * statistics.stdev(values) / math.sqrt(5)
    assert cell(*values).half_width("ci") == pytest.approx(expected, rel=1e-6)
    assert cell(0.7).half_width("ci") is None


@given(st.lists(st.floats(0, 1), min_size=2, max_size=8))
def test_equal_shifts_of_all_values_move_the_mean_and_leave_the_spread(values: list[float]):
    one, other = cell(*values), cell(*(value + 1 for value in values))
    assert other.mean == pytest.approx(one.mean + 1)
    for spread in ("std", "ci"):
        assert other.half_width(spread) == pytest.approx(one.half_width(spread), abs=1e-9)


def test_diverged_runs_count_with_what_they_reached_and_accidents_never(run: Callable, runs: Path):
    run(0.5, 0)
    run(0.25, 1, "diverged")
    run(None, 2, "diverged")
    run("nan", 3)
    for seed, status in enumerate(["failed", "failed", "interrupted", "running"], start=4):
        run(0.99, seed, status)
    found = tabulate(load(runs), "status").cells
    assert [line[0].n for line in found] == [1, 1, 0, 0, 0]
    one = tabulate(load(runs), "layer").cells[0][0]
    assert (one.mean, one.n, one.results, one.diverged) == (0.375, 2, 4, 2)
    assert one.left_out == {"failed": 2, "interrupted": 1, "running": 1}
    assert len(one.runs) == 8


def test_numbers_stand_by_size_and_words_as_they_come(run: Callable, runs: Path):
    for depth in (10, 2, 100, 2.5):
        for norm in ("b", "a"):
            run(depth=depth, norm=norm)
    run(depth=2)
    table = tabulate(load(runs).iloc[::-1], "depth", "norm")
    assert table.rows == (("2",), ("2.5",), ("10",), ("100",))
    assert table.columns == (("b",), ("a",), ("-",))


def test_rows_of_several_axes_are_the_combinations_that_there_are(run: Callable, runs: Path):
    for data, depth in (("Cora", 2), ("Cora", 10), ("CiteSeer", 10)):
        run(data=data, depth=depth, norm="none")
    table = tabulate(load(runs), ["data", "depth"], "norm")
    assert table.rows == (("CiteSeer", "10"), ("Cora", "2"), ("Cora", "10"))
    assert table.labels(table.rows[1], ("none",)) == {"data": "Cora", "depth": "2", "norm": "none"}


def test_a_forgotten_axis_is_named_with_its_values(run: Callable, runs: Path):
    for data in ("Cora", "CiteSeer"):
        for norm in ("none", "pair"):
            run(data=data, norm=norm)
    with pytest.raises(ReportError, match=r"^cells mix data CiteSeer, Cora: give it an axis of its own "):
        tabulate(load(runs), "norm")
    assert tabulate(load(runs), "norm", "data").cell(("pair",), ("Cora",)).n == 1


def test_a_hyperparameter_that_differs_without_being_an_axis_is_named(run: Callable, runs: Path):
    run(seed=0, depth=2, result={"hparams": {"model.norm": "pair", "model.norm.scale": 1.0, "data.root": "/a"}})
    run(seed=1, depth=2, result={"hparams": {"model.norm": "none", "data.root": "/a"}})
    with pytest.raises(ReportError, match=r"^cells mix model.norm pair, none: give it .* --where model.norm=pair\.$"):
        tabulate(load(runs), "depth")


def test_an_option_that_only_some_runs_have_differs(run: Callable, runs: Path):
    run(seed=0, depth=2, result={"hparams": {"model.layer": "gat", "trainer.gradient_clip_val": 1.0}})
    run(seed=1, depth=2, result={"hparams": {"model.layer": "gat"}})
    with pytest.raises(ReportError, match=r"cells mix trainer.gradient_clip_val 1, -"):
        tabulate(load(runs), "depth")


def test_what_cannot_change_a_result_may_differ_and_old_runs_do_not_say(run: Callable, runs: Path):
    for seed, root in enumerate(["/a", "/b"]):
        run(seed=seed, depth=2, result={"hparams": {"seed_everything": seed, "data.root": root, "model.layer": "gat"}})
    run(seed=2, depth=2, result={"hparams": {}})
    assert tabulate(load(runs), "depth").cells[0][0].n == 3


def test_one_seed_does_not_count_twice(run: Callable, runs: Path):
    first, second = run(seed=1, depth=2), run(seed=1, depth=2)
    with pytest.raises(ReportError, match=f"seed 1 counts twice in one cell, by '{first}' and '{second}'"):
        tabulate(load(runs), "depth")


def test_runs_without_a_seed_all_count(run: Callable, runs: Path):
    for _ in range(3):
        run(seed=None, depth=2)
    found = tabulate(load(runs), "depth").cells[0][0]
    assert (found.n, found.by_seed) == (3, {})


def test_wrong_words_are_answered(run: Callable, runs: Path):
    run(depth=2, norm="none")
    frame = load(runs)
    for rows, columns, metric, message in [
        ("depht", "norm", METRIC, "unknown axis 'depht'. Did you mean 'depth'"),
        ("depth", "depth", METRIC, "rows and columns are of different axes"),
        ([], "depth", METRIC, "rows of at least one"),
        ("depth", "norm", "test_acc_at_best", f"unknown metric 'test_acc_at_best'. Did you mean '{METRIC}'"),
    ]:
        with pytest.raises(ReportError, match=message):
            tabulate(frame, rows, columns, metric)
    with pytest.raises(ReportError, match=r"unknown spread 'sdt'. Did you mean 'std'"):
        tabulate(frame, "depth", "norm", spread="sdt")


def test_runs_without_any_metric_say_what_became_of_them(run: Callable, runs: Path):
    run(None, 0, "running", depth=2)
    run(None, 1, "failed", depth=2)
    with pytest.raises(ReportError, match="no run has a metric yet: 1 running, 1 failed"):
        tabulate(load(runs), "depth")


def test_the_last_axis_that_varies_is_of_the_columns_where_nobody_said(run: Callable, runs: Path):
    for depth in (2, 10):
        for norm in ("none", "pair"):
            run(data="Cora", depth=depth, norm=norm)
    frame = load(runs)
    assert arrange(frame, None, None) == (["depth"], ["norm"])
    assert arrange(frame, ["norm"], None) == (["norm"], ["depth"])
    assert arrange(frame, None, ["depth"]) == (["norm"], ["depth"])
    assert arrange(frame, ["data"], ["seed"]) == (["data"], ["seed"])
    assert arrange(frame[frame["depth"] == 2], None, None) == (["norm"], [])


def test_single_fits_need_rows_and_are_told_what_there_is(run: Callable, runs: Path):
    for layer in ("gat", "gcn"):
        run(result={"axes": {}, "hparams": {"model.layer": layer}, "name": layer})
    with pytest.raises(ReportError, match=r"--rows is needed: .* Available: name, model.layer"):
        arrange(load(runs), None, None)
    assert tabulate(load(runs), "layer").rows == (("gat",), ("gcn",))
