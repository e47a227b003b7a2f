"""Means and spreads in the cells of a table, the runs behind them, and paired tests between
cells."""

import csv
import io
import itertools
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.load import ReportWarning
from gnn_depth.reports.table import (
    Cell,
    ResultTable,
    arrange,
    compare,
    compare_cells,
    p_value,
    tabulate,
    to_csv,
    write_parquet,
)
from tests.reports.conftest import cell
from tests.reports.made import METRIC


def test_a_cell_is_the_mean_and_spread_over_its_seeds(run: Callable, runs: Path):
    values = {("2", "none"): [0.5, 0.75, 0.25], ("2", "pair"): [0.5, 0.5], ("10", "none"): [0.125]}
    for (depth, norm), seeds in values.items():
        for seed, value in enumerate(seeds):
            run(value, seed, depth=int(depth), norm=norm)
    table = tabulate(read_runs(runs), "depth", "norm")
    for (depth, norm), seeds in values.items():
        found = table.cells[(depth,), (norm,)]
        mean = sum(seeds) / len(seeds)
        assert (found.mean, found.n) == (mean, len(seeds))
        assert found.by_seed == dict(enumerate(seeds))
        if len(seeds) > 1:
            variance = sum((value - mean) ** 2 for value in seeds) / (len(seeds) - 1)
            assert found.half_width("std") == pytest.approx(math.sqrt(variance))
    assert table.cells[("10",), ("none",)].half_width("std") is None
    assert table.cells[("10",), ("pair",)].runs == ()


def test_diverged_runs_count_with_what_they_reached_and_accidents_never(run: Callable, runs: Path):
    run(0.5, 0)
    run(0.25, 1, "diverged")
    run(None, 2, "diverged")
    run("nan", 3)
    for seed, status in enumerate(["failed", "failed", "interrupted", "running"], start=4):
        run(0.99, seed, status)
    assert [cell.n for cell in tabulate(read_runs(runs), "status").cells.values()] == [
        1,
        1,
        0,
        0,
        0,
    ]
    (one,) = tabulate(read_runs(runs), "layer").cells.values()
    assert (one.mean, one.n, one.results) == (0.375, 2, 4)
    assert one.statuses == {
        "finished": 2,
        "diverged": 2,
        "failed": 2,
        "interrupted": 1,
        "running": 1,
    }
    assert len(one.runs) == 8


def test_numbers_stand_by_size_and_words_as_they_come(run: Callable, runs: Path):
    for depth in (10, 2, 100, 2.5):
        for norm in ("b", "a"):
            run(depth=depth, norm=norm)
    run(depth=2)
    table = tabulate(read_runs(runs).iloc[::-1], "depth", "norm")
    assert table.rows == (("2",), ("2.5",), ("10",), ("100",))
    assert table.columns == (("b",), ("a",), ("-",))


def test_a_forgotten_axis_is_named_with_its_values(run: Callable, runs: Path):
    for data in ("Cora", "CiteSeer"):
        for norm in ("none", "pair"):
            run(data=data, norm=norm)
    with pytest.raises(
        ReportError, match=r"data \(CiteSeer, Cora\): .*--rows norm data, .*--where data=CiteSeer"
    ):
        tabulate(read_runs(runs), "norm")
    assert tabulate(read_runs(runs), "norm", "data").cells[("pair",), ("Cora",)].n == 1


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (
            {"model.norm": "pair", "model.norm.scale": 1.0},
            {"model.norm": "none"},
            r"model.norm \(pair, none\): .*=pair\.$",
        ),
        (
            {"a.b": 1, "trainer.gradient_clip_val": 1.0},
            {"a.b": 1},
            r"trainer.gradient_clip_val \(1, -\)",
        ),
    ],
)
def test_an_option_that_differs_is_named_also_where_only_some_runs_have_it(
    run, runs, first, second, message
):
    run(seed=0, depth=2, result={"hparams": first})
    run(seed=1, depth=2, result={"hparams": second})
    with pytest.raises(ReportError, match=message):
        tabulate(read_runs(runs), "depth")


def test_what_cannot_change_a_result_may_differ_and_old_runs_do_not_say(run: Callable, runs: Path):
    for seed, root in enumerate(["/a", "/b"]):
        run(
            seed=seed,
            depth=2,
            result={"hparams": {"seed_everything": seed, "data.root": root, "model.layer": "gat"}},
        )
    run(seed=2, depth=2, result={"hparams": {}})
    assert tabulate(read_runs(runs), "depth").cells[("2",), ()].n == 3


def test_one_seed_does_not_count_twice(run: Callable, runs: Path):
    first, second = run(seed=1, depth=2), run(seed=1, depth=2)
    with pytest.raises(ReportError, match=f"seed 1 .*'{first}' and '{second}'"):
        tabulate(read_runs(runs), "depth")


def test_wrong_axes_and_spreads_are_answered(run: Callable, runs: Path):
    run(depth=2, norm="none")
    with pytest.raises(ReportError, match="at least one"):
        tabulate(read_runs(runs), [], "depth")
    with pytest.raises(ReportError, match=r"'sdt'.*'std'"):
        tabulate(read_runs(runs), "depth", "norm", spread="sdt")


def test_runs_without_any_metric_say_what_became_of_them(run: Callable, runs: Path):
    run(None, 0, "running", depth=2)
    run(None, 1, "failed", depth=2)
    with pytest.raises(ReportError, match=r"1 running, 1 failed"):
        tabulate(read_runs(runs), "depth")


def test_the_last_axis_that_varies_is_of_the_columns_where_nobody_said(run: Callable, runs: Path):
    for depth in (2, 10):
        for norm in ("none", "pair"):
            run(data="Cora", depth=depth, norm=norm)
    frame = read_runs(runs)
    assert arrange(frame, None, None) == (["depth"], ["norm"])
    assert arrange(frame, ["norm"], None) == (["norm"], ["depth"])
    assert arrange(frame, None, ["depth"]) == (["norm"], ["depth"])
    assert arrange(frame, ["data"], ["seed"]) == (["data"], ["seed"])
    assert arrange(frame[frame["depth"] == 2], None, None) == (["norm"], [])


def test_what_differs_between_single_fits_becomes_rows_and_columns(run: Callable, runs: Path):
    for layer, heads in (("gat", 8), ("gcn", None)):
        for depth in (2, 10):
            for seed in (0, 1):
                known = {"data": "Cora", "model.num_layers": depth, "seed_everything": seed}
                part = {"model.layer": layer, "model.layer.heads": heads}  # follows from the layer
                run(seed=seed, result={"axes": {}, "hparams": known | part})
    frame = read_runs(runs)
    assert arrange(frame, None, None) == (["model.num_layers"], ["model.layer"])
    assert arrange(frame, ["name"], None) == (["name"], [])
    assert arrange(frame, ["layers"], ["layer"]) == (["layers"], ["layer"])
    assert arrange(frame[frame["model.layer"] == "gat"], None, None) == (["model.num_layers"], [])
    table = tabulate(frame, *arrange(frame, None, None))
    assert (table.rows, table.columns) == ((("2",), ("10",)), (("gat",), ("gcn",)))
    seeds = frame[(frame["model.layer"] == "gat") & (frame["model.num_layers"] == 2)]
    assert arrange(seeds, None, None) == (["data"], [])
    assert tabulate(seeds, "data").rows == (("Cora",),)


def test_single_fits_that_differ_in_many_settings_have_a_row_each(run: Callable, runs: Path):
    for number in range(2):
        known = {f"model.option_{place}": number for place in range(7)}
        run(result={"axes": {}, "hparams": {"data": "Cora"} | known})
    frame = read_runs(runs)
    with pytest.warns(ReportWarning, match="differ in 7 settings, so each has a row"):
        assert arrange(frame, None, None) == (["folder"], [])
    assert len(tabulate(frame, ["folder"]).rows) == 2
    assert arrange(frame, ["option_1"], None) == (["option_1"], [])


def test_every_run_is_listed_also_those_that_do_not_count(table: ResultTable):
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert list(lines[0]) == ["depth", "norm", "seed", "status", METRIC, "folder"]
    assert len(lines) == 10
    back: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        if line["status"] == "finished":
            back.setdefault((line["depth"], line["norm"]), []).append(float(line[METRIC]))
    for (row, column), found in table.cells.items():
        assert back[(*row, *column)] == found.values
    assert [line[METRIC] for line in lines if line["status"] in ("failed", "diverged")] == ["", ""]
    assert {line["seed"] for line in lines} == {"0", "1", "2", "3"}


def test_parquet_holds_the_same(
    table: ResultTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("pyarrow")
    write_parquet(table, tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "runs.parquet"), table.runs)
    assert table.runs["depth"].tolist() == [2] * 6 + [10] * 4
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ReportError, match=r"gnn-depth\[parquet\]"):
        write_parquet(table, tmp_path / "again.parquet")


def one_row(**cells: Cell) -> ResultTable:
    """A table of one row and a column for each cell."""
    columns = tuple((name,) for name in cells)
    by_place = {(("2",), column): one for column, one in zip(columns, cells.values())}
    return ResultTable("test/acc", "std", ("depth",), ("norm",), (("2",),), columns, by_place)


def signed_rank_p(differences: list[float]) -> float:
    """Wilcoxon's two-sided p from its definition: all assignments of signs to the ranks of what is
    not zero."""
    sizes = [abs(difference) for difference in differences if difference]
    ranks = [
        sum(other < size for other in sizes) + (sum(other == size for other in sizes) + 1) / 2
        for size in sizes
    ]
    positive = sum(rank for rank, d in zip(ranks, [d for d in differences if d]) if d > 0)
    sums = [
        sum(itertools.compress(ranks, signs))
        for signs in itertools.product((0, 1), repeat=len(ranks))
    ]
    below = np.mean([total <= positive for total in sums])
    above = np.mean([total >= positive for total in sums])
    return min(1.0, 2 * min(below, above))


@given(st.lists(st.integers(-4, 4), min_size=6, max_size=8))
def test_wilcoxons_p_is_that_of_its_definition_with_ties_and_zeros(nodes: list[int]):
    expected = signed_rank_p(nodes) if any(nodes) else 1.0
    assert p_value(np.array(nodes) / 1000, "wilcoxon", 1e-6) == pytest.approx(expected)


@given(st.lists(st.tuples(st.integers(600, 800), st.integers(-5, 5)), min_size=6, max_size=6))
def test_noise_of_single_precision_breaks_no_ties(pairs: list[tuple[int, int]]):
    base = [float(np.float32(nodes / 1000)) for nodes, _ in pairs]
    ours = [float(np.float32((nodes + more) / 1000)) for nodes, more in pairs]
    differences = [more for _, more in pairs]
    expected = signed_rank_p(differences) if any(differences) else 1.0
    assert compare_cells(cell(*ours), cell(*base), "wilcoxon").p == pytest.approx(expected)


def test_the_paired_t_test_by_hand():
    # differences 1, 2, 3: mean 2, s = 1, t = 2 sqrt(3); for two degrees of freedom p = 1 - t /
    # sqrt(t^2 + 2)
    assert p_value(np.array([1.0, 2.0, 3.0]), "t", 0.0) == pytest.approx(1 - np.sqrt(12 / 14))


def test_equal_differences_leave_no_doubt_and_none_at_all_no_effect():
    assert p_value(np.full(5, 0.01), "t", 1e-6) == 0.0
    assert p_value(np.zeros(6), "t", 0.0) == p_value(np.zeros(6), "wilcoxon", 0.0) == 1.0


def test_only_shared_seeds_are_compared():
    ours, base = cell(0.5, 0.75, 1.0, first_seed=1), cell(0.25, 0.25, 0.5, first_seed=0)
    found = compare_cells(ours, base, "t")
    assert (found.shared, found.difference) == (2, ((0.5 - 0.25) + (0.75 - 0.5)) / 2)


def test_too_few_shared_seeds_have_no_p_value():
    base = cell(*[0.5] * 6)
    assert compare_cells(cell(*[0.6] * 5), base, "wilcoxon").p is None
    assert compare_cells(cell(*[0.6] * 6), base, "wilcoxon").p == pytest.approx(2 / 2**6)
    assert compare_cells(cell(0.6), base, "t").p is None
    nothing = compare_cells(cell(0.6, first_seed=9), base, "t")
    assert (nothing.shared, nothing.p, nothing.significant) == (0, None, False)


def test_a_baseline_is_a_column_or_a_row():
    table = one_row(none=cell(0.5, 0.5), pair=cell(0.75, 1.0))
    base, other = compare(table, "none", "t").pairs.values()
    assert base is None
    assert other.difference == 0.375
    assert list(compare(table, "2", "t").pairs.values()) == [None, None]


def test_an_unknown_or_ambiguous_baseline_is_refused():
    table = one_row(none=cell(0.5), pair=cell(0.5))
    with pytest.raises(ReportError, match=r"'nnoe'.*'none'.*: 2, none, pair"):
        compare(table, "nnoe")
    twice = one_row(**{"2": cell(0.5)})
    with pytest.raises(ReportError, match=r"'2' is a row and a column"):
        compare(twice, "2")
