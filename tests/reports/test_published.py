from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.published import (
    PublishedNumber,
    agreement_of,
    compare_published,
    parse_published,
    read_published,
)
from gnn_depth.reports.table import tabulate
from tests.reports.conftest import cell

ENTRY = {
    "source": "Mustafa et al. 2023, table 6",
    "interval": "std",
    "unit": "percent",
    "where": {"data": "Cora", "norm": "lipschitz"},
    "over": "depth",
    "values": {2: 82.1, 5: "77.1 ± 0.5", 10: "78 +- 1.25", 20: "72.2+/-2"},
}


def test_numbers_are_read_in_the_unit_of_our_metrics():
    (entry,) = parse_published([ENTRY])
    means = {label: number.mean for label, number in entry.numbers.items()}
    assert means == pytest.approx({"2": 0.821, "5": 0.771, "10": 0.78, "20": 0.722})
    assert [number.half for number in entry.numbers.values()] == [None, 0.005, 0.0125, 0.02]
    assert (entry.source, entry.interval, entry.over) == (ENTRY["source"], "std", "depth")
    assert entry.where == {"data": "Cora", "norm": "lipschitz"}


def test_fractions_stay_what_they_are_and_nothing_said_means_percent_without_interval():
    (fractions,) = parse_published(
        [ENTRY | {"unit": "fraction", "values": {2: 0.5, None: -1.5e-3, True: 1}}]
    )
    assert fractions.numbers == {
        "2": PublishedNumber(0.5),
        "null": PublishedNumber(-0.0015),
        "true": PublishedNumber(1.0),
    }
    (entry,) = parse_published(
        {"published": [{"source": "A", "over": "depth", "values": {2: 50}}], "grid": "other keys"}
    )
    assert (entry.numbers, entry.interval, entry.where) == ({"2": PublishedNumber(0.5)}, None, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sourc": "x"}, "'sourc'.*'source'"),
        ({"interval": "sdt"}, "'sdt'.*'std'"),
        ({"values": {2: "about 80"}}, "value of 2 .*not 'about 80'"),
        ({"values": {2: True}}, "value of 2 .*not True"),
        ({"values": [82.1]}, r"'values' .*not \[82.1\]"),
        ({"over": None}, r"'over'"),
        ({"interval": "none"}, r"value of 5: '77.1 ± 0.5' .*std"),
    ],
)
def test_an_entry_that_is_not_understood_is_named(change: dict[str, Any], message: str):
    with pytest.raises(
        ReportError, match=r"^numbers.yaml, entry 2 \(Mustafa et al. 2023, table 6\).*" + message
    ):
        parse_published([ENTRY, ENTRY | change], "numbers.yaml")


def test_a_file_that_holds_no_entries_is_named(tmp_path: Path):
    path = tmp_path / "numbers.yaml"
    for content, message in [("a: [", "YAML"), ("a: 1", "a list"), ("- 1", "entry 1")]:
        path.write_text(content)
        with pytest.raises(ReportError, match=f"numbers.yaml.*{message}"):
            read_published(path)
    with pytest.raises(ReportError, match=r"missing.yaml' cannot be read \(No such file"):
        read_published(tmp_path / "missing.yaml")


@pytest.mark.parametrize(
    ("ours", "number", "interval", "word"),
    [
        ([0.80, 0.82], PublishedNumber(0.82, 0.01), "std", "inside"),  # exactly on the edge
        ([0.80, 0.82], PublishedNumber(0.825, 0.005), "std", "overlapping"),  # ours 0.81 +- 0.01414
        ([0.80, 0.82], PublishedNumber(0.85, 0.01), "std", "outside"),
        (
            [0.80, 0.82],
            PublishedNumber(0.90, 0.01),
            "ci",
            "overlapping",
        ),  # ours 0.81 +- 0.127: t(0.975, 1) = 12.7
        (
            [0.80, 0.82],
            PublishedNumber(0.81),
            None,
            "overlapping",
        ),  # no published interval: never inside
        ([0.81], PublishedNumber(0.815, 0.01), "std", "inside"),
        (
            [0.81],
            PublishedNumber(0.81),
            None,
            "outside",
        ),  # one run against one number: nothing to say
        ([], PublishedNumber(0.81, 0.01), "std", "no value"),
    ],
)
def test_the_agreement_of_a_cell(
    ours: list[float], number: PublishedNumber, interval: Any, word: str
):
    assert agreement_of(cell(*ours), number, interval) == word


def test_every_source_speaks_of_the_cells_that_it_is_about(run: Callable, runs: Path):
    for data in ("Cora", "CiteSeer"):
        for norm in ("lipschitz", "none"):
            for depth in (2, 10):
                for seed, value in enumerate((0.80, 0.82)):
                    run(value, seed, data=data, norm=norm, depth=depth)
    table = tabulate(read_runs(runs), ["data", "depth"], "norm")
    other = ENTRY | {
        "source": "B",
        "where": {"norm": "lipschitz"},
        "interval": "none",
        "values": {"10.0": 81},
    }
    found = compare_published(table, parse_published([ENTRY, other]))
    assert [(one.row, one.column, one.published.source, one.level) for one in found] == [
        (("CiteSeer", "10"), ("lipschitz",), "B", "overlapping"),
        (("Cora", "2"), ("lipschitz",), ENTRY["source"], "overlapping"),
        (("Cora", "10"), ("lipschitz",), ENTRY["source"], "outside"),
        (("Cora", "10"), ("lipschitz",), "B", "overlapping"),
    ]
    assert found[1].difference == pytest.approx(0.81 - 0.821)


def test_an_axis_that_the_table_does_not_show_is_known_from_the_runs(run: Callable, runs: Path):
    run(0.8, data="Cora", depth=2)
    run(0.8, data="Cora", depth=10)
    table = tabulate(read_runs(runs), "depth")
    entry = {"source": "A", "over": "depth", "values": {2: 80}}
    assert (
        len(compare_published(table, parse_published([entry | {"where": {"data": "Cora"}}]))) == 1
    )
    assert (
        len(compare_published(table, parse_published([entry | {"where": {"layer": "gat"}}]))) == 1
    )
    assert compare_published(table, parse_published([entry | {"where": {"data": "PubMed"}}])) == []
    with pytest.raises(ReportError, match=r"'dats'.*'data'"):
        compare_published(table, parse_published([entry | {"where": {"dats": "Cora"}}]))


def test_a_cell_without_runs_is_shown_beside_its_published_number(run: Callable, runs: Path):
    run(0.8, data="Cora", norm="lipschitz", depth=2)
    run(0.8, data="Cora", norm="none", depth=10)
    found = compare_published(tabulate(read_runs(runs), "depth", "norm"), parse_published([ENTRY]))
    assert [(one.row, one.level) for one in found] == [(("2",), "outside"), (("10",), "no value")]


def test_runs_that_record_no_settings_are_compared_by_their_columns(run: Callable, runs: Path):
    run(0.8, seed=3, result={"axes": {}, "hparams": {}})
    entry = {"source": "A", "over": "seed", "values": {3: 80}}
    (found,) = compare_published(tabulate(read_runs(runs), "seed"), parse_published([entry]))
    assert found.row == ("3",)
