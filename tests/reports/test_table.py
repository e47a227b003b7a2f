"""Means and spreads in the cells of a table, and the runs behind them."""

import math
from itertools import product

import pytest

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.table import tabulate
from tests.reports.made import METRIC


def test_a_cell_is_the_mean_and_spread_over_its_seeds(run, runs):
    values = {("2", "none"): [0.5, 0.75, 0.25], ("2", "pair"): [0.5, 0.5], ("10", "none"): [0.125]}
    for (depth, norm), seeds in values.items():
        for seed, value in enumerate(seeds):
            run(value, seed, depth=int(depth), norm=norm)
    table = tabulate(read_runs(runs), ["depth"], ["norm"])
    for (depth, norm), seeds in values.items():
        found = table.cells[depth, norm]
        mean = sum(seeds) / len(seeds)
        assert (found.mean, found.n) == (mean, len(seeds))
        assert found.counting[METRIC].tolist() == seeds
        if len(seeds) > 1:
            variance = sum((value - mean) ** 2 for value in seeds) / (len(seeds) - 1)
            assert found.half_width("std") == pytest.approx(math.sqrt(variance))
    assert table.cells["10", "none"].half_width("std") is None
    assert table.cells["10", "pair"].n == 0


def test_diverged_runs_count_with_what_they_reached_and_accidents_never(run, runs):
    run(0.5, 0)
    run(0.25, 1, "diverged")
    run(None, 2, "diverged")
    run("nan", 3)
    for seed, status in enumerate(["failed", "failed", "interrupted", "running"], start=4):
        run(0.99, seed, status)
    counts = [cell.n for cell in tabulate(read_runs(runs), ["status"]).cells.values()]
    assert counts == [1, 1, 0, 0, 0]
    table = tabulate(read_runs(runs), ["layer"])
    (one,) = table.cells.values()
    assert (one.mean, one.n, one.results, len(one.runs)) == (0.375, 2, 4, 8)
    assert table.runs["status"].tolist().count("failed") == 2
    assert list(one.statuses.values()) == [2, 2, 2, 1, 1]


def test_numbers_stand_by_size_and_words_as_they_come(run, runs):
    for depth in (10, 2, 100, 2.5):
        for norm in ("b", "a"):
            run(depth=depth, norm=norm)
    run(depth=2)
    table = tabulate(read_runs(runs).iloc[::-1], ["depth"], ["norm"])
    assert table.rows == (("2",), ("2.5",), ("10",), ("100",))
    assert table.columns == (("b",), ("a",), ("-",))


def test_an_option_that_only_some_runs_have_is_a_difference_that_is_named(run, runs):
    run(seed=0, depth=2, result={"hparams": {"model.norm": "pair", "model.norm.scale": 1.0}})
    run(seed=1, depth=2, result={"hparams": {"model.norm": "none"}})
    with pytest.raises(ReportError, match=r"model.norm \(pair, none\): .*=pair\.$"):
        tabulate(read_runs(runs), ["depth"])


def test_what_cannot_change_a_result_may_differ_and_runs_that_never_began_do_not_say(run, runs):
    for seed, root in enumerate(["/a", "/b"]):
        hparams = {"seed_everything": seed, "data.root": root, "model.layer": "gat"}
        run(seed=seed, depth=2, result={"hparams": hparams})
    run(seed=2, depth=2, result={"hparams": {}, "started": None})
    assert tabulate(read_runs(runs), ["depth"]).cells["2",].n == 3


def test_one_seed_does_not_count_twice(run, runs):
    first, second = (run(seed=1, depth=2, result={"sweep": None}) for _ in range(2))
    with pytest.raises(ReportError, match=f"seed 1 .*'{first}' and '{second}'"):
        tabulate(read_runs(runs), ["depth"])


def test_what_differs_between_single_fits_becomes_rows(run, runs):
    for layer, depth, seed in product(("gat", "gcn"), (2, 10), (0, 1)):
        known = {"data": "Cora", "model.num_layers": depth, "model.layer": layer}
        own = {"axes": {}, "hparams": known | {"seed_everything": seed}, "name": "a"}
        run(seed=seed, result=own)
    frame = read_runs(runs)
    rows = ["model.num_layers", "model.layer"]
    table = tabulate(frame, None, None)
    assert (list(table.names), table.columns) == (rows, ((),))
    assert [cell.n for cell in table.cells.values()] == [2] * 4
    seeds = frame[(frame["model.layer"] == "gat") & (frame["model.num_layers"] == 2)]
    assert tabulate(seeds, None, None).names == ("name",)


def test_single_runs_that_differ_in_many_options_have_a_row_each(run, runs):
    for number in range(3):
        known = {f"model.option_{place}": number for place in range(7)}
        run(result={"axes": {}, "hparams": known, "name": "a"})
    table = tabulate(read_runs(runs), None, None)
    assert (table.names, len(table.rows)) == (("folder",), 3)
