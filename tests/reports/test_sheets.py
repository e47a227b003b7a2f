from collections.abc import Callable
from pathlib import Path

import pytest

from gnn_depth.reports import load
from gnn_depth.reports.cells import Cell, Run
from gnn_depth.reports.compare import paired
from gnn_depth.reports.published import parse
from gnn_depth.reports.sheet import is_percent, say, say_cell
from gnn_depth.reports.sheets import comparison_sheet, table_sheet, verdict_sheet
from gnn_depth.reports.tabulate import tabulate
from gnn_depth.reports.verdicts import against
from tests.reports.conftest import METRIC, cell


@pytest.mark.parametrize("metric", ["test/acc", METRIC, "val_f1_at_best_val", "auroc", "train/acc"])
def test_fractions_of_nodes_are_said_in_percent(metric: str):
    assert is_percent(metric)
    assert say(0.8125, metric) == "81.2"
    assert say_cell(cell(0.5, 0.75), metric, "std") == "62.5 ± 17.7"


@pytest.mark.parametrize("metric", ["val/loss", "train/lr", "accelerate", "missing/fraction"])
def test_other_metrics_have_four_digits(metric: str):
    assert not is_percent(metric)
    assert say(1234.56, metric) == "1235"
    assert say(0.000123456, metric) == "0.0001235"


def test_one_value_has_no_spread_and_none_no_number():
    assert say_cell(cell(0.5), "test/acc", "std") == "50.0"
    assert say_cell(cell(), "test/acc", "std") == "-"


@pytest.mark.parametrize(("metric", "best"), [(METRIC, {"pair", "layer"}), ("val/loss", {"none"})])
def test_the_best_of_a_row_is_the_larger_mean_and_of_losses_the_smaller(
    run: Callable, runs: Path, metric: str, best: set[str]
):
    for norm, value in {"none": 0.5, "pair": 0.8001, "layer": 0.8002, "batch": "nan"}.items():
        run(norm=norm, depth=2, result={"metrics": {metric: value}})
    sheet = table_sheet(tabulate(load(runs), "depth", "norm", metric))
    assert {name for name, entry in zip(sheet.head, sheet.lines[0]) if entry.best} == best


def test_a_row_with_one_mean_has_no_best(run: Callable, runs: Path):
    run(0.5, norm="none", depth=2)
    run(None, norm="pair", depth=2)
    assert not any(entry.best for entry in table_sheet(tabulate(load(runs), "depth", "norm")).lines[0])


def test_a_cell_says_what_could_not_be_averaged_and_the_notes_count_it(run: Callable, runs: Path):
    for seed in range(5):
        run(0.5, seed, depth=2, data="Cora")
        run(0.5 if seed else None, seed, "finished" if seed else "diverged", depth=10, data="Cora")
        run(0.5, seed, "diverged" if seed else "finished", depth=20, data="Cora")
        if seed < 3:
            run(0.5, seed, depth=30, data="Cora")
    run(0.5, 3, "failed", depth=30, data="Cora")
    run(None, 4, "running", depth=30, data="Cora")
    run(None, 0, "failed", depth=40, data="Cora")
    sheet = table_sheet(tabulate(load(runs), "depth"))
    notes = [line[1].note for line in sheet.lines]
    assert notes == ["", "4 of 5, 1 diverged", "4 diverged", "n = 3", "1 failed"]
    assert sheet.lines[-1][1].text == "-"
    assert sheet.notes == (
        f"{METRIC} in %, mean ± standard deviation over 3 to 5 seeds.",
        "Of all runs: data=Cora.",
        "Diverged: 5, of which 4 count with what they had reached.",
        "Left out: 2 failed, 1 running.",
    )


def test_significant_differences_have_a_star_that_is_explained(run: Callable, runs: Path):
    for seed in range(6):
        run(0.5 + seed / 100, seed, norm="none", depth=2)
        run(0.6 + seed / 100, seed, norm="pair", depth=2)
        run(0.5 + (seed % 2) / 100, seed, norm="layer", depth=2)
        if seed < 3:
            run(0.6, seed, norm="batch", depth=2)
    table = tabulate(load(runs), "depth", "norm")
    comparison = paired(table, "none")
    sheet = table_sheet(table, comparison)
    assert {name for name, entry in zip(sheet.head, sheet.lines[0]) if entry.mark == "*"} == {"pair"}
    assert "* p < 0.05 against none, Wilcoxon's signed-rank test over shared seeds" in sheet.notes[1]
    assert "1 cell has too few shared seeds for a p value: 6 are needed." in sheet.notes
    against = comparison_sheet(table, comparison)
    said = {name: (entry.text, entry.note) for name, entry in zip(against.head, against.lines[0])}
    assert said["pair"] == ("+10.0, p = 0.031", "")
    assert said["batch"] == ("+9.0", "3 seeds")
    assert said["none"] == ("", "")


def test_verdicts_stand_in_lines_with_their_sources_below(run: Callable, runs: Path):
    for seed, value in enumerate((0.80, 0.82)):
        run(value, seed, norm="lipschitz", depth=2)
    table = tabulate(load(runs), "depth", "norm")
    entries = [
        {"source": source, "interval": "std", "over": "depth", "values": {2: value}}
        for source, value in [("A", "82 +- 1"), ("B", 75)]
    ]
    sheet = verdict_sheet(table, against(table, parse(entries)))
    assert [[entry.text + entry.mark for entry in line] for line in sheet.lines] == [
        ["2", "lipschitz", "81.0 ± 1.4", "82.0 ± 1.0 [1]", "-1.0", "inside"],
        ["2", "lipschitz", "81.0 ± 1.4", "75.0 [2]", "+6.0", "outside"],
    ]
    assert sheet.notes == ("Verdicts: 1 inside, 1 outside.", "[1] A", "[2] B")
    misspelt = parse([entries[0] | {"where": {"norm": "lipshitz"}}])
    assert verdict_sheet(table, against(table, misspelt), misspelt).notes == (
        "Verdicts: none.",
        "[1] A: of no cell of this table",
    )


def test_axes_are_named_by_their_last_words_where_these_differ(run: Callable, runs: Path):
    run(result={"axes": {"model.layer": "gat", "a.lr": 1, "b.lr": 2}})
    table = tabulate(load(runs), ["model.layer", "a.lr"], "b.lr")
    assert table_sheet(table).head == ("layer", "a.lr", "2")


def test_a_run_that_is_an_accident_never_counts_whatever_it_says():
    runs = (Run(0, "failed", 0.9, "a"), Run(1, "finished", 0.5, "b"))
    assert Cell(runs, {}).mean == 0.5
