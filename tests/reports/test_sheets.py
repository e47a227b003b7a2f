"""Tables of text, and their formats."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.measurements import MeasureValues
from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.formats import html_page, latex, latex_text, markdown, terminal
from gnn_depth.reports.published import PublishedNumber, compare_published, parse_published
from gnn_depth.reports.settings import is_percent
from gnn_depth.reports.sheets import (
    Sheet,
    agreement_sheet,
    check_measures,
    comparison_sheet,
    format_value,
    measures_sheet,
    table_sheet,
)
from gnn_depth.reports.table import ResultTable, compare, tabulate
from tests.reports.made import METRIC, make_run


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        *((metric, 0.8125, "81.2") for metric in ("test/acc", METRIC, "auroc")),
        *((metric, 1234.56, "1235") for metric in ("val/loss", "accelerate")),
        ("val/loss", 0.000123456, "0.0001235"),
    ],
)
def test_fractions_of_nodes_are_in_percent_and_other_metrics_have_four_digits(
    metric: str, value: float, text: str
):
    assert is_percent(metric) == (text == "81.2")
    assert format_value(value, metric) == text


def test_the_bold_number_is_the_best_of_what_is_compared(run: Callable, runs: Path):
    values = {("a", 2): 0.1, ("a", 10): 0.9, ("b", 2): 0.2, ("b", 10): 0.3}
    for (norm, depth), value in values.items():
        for seed in range(2):
            run(value, seed, norm=norm, depth=depth)
    frame = read_runs(runs)
    upright, flat = tabulate(frame, "depth", "norm"), tabulate(frame, "norm", "depth")

    def bold(table: ResultTable, **options: Any) -> set[str]:
        sheet = table_sheet(table, **options)
        return {sheet.lines[row][column].partition(" ")[0] for row, column in sheet.best}

    assert bold(upright) == bold(flat) == {"20.0", "90.0"}, "of the norms at each depth"
    assert bold(flat, best="row") == bold(upright, best="column") == {"90.0", "30.0"}
    assert bold(flat, best="table") == {"90.0"}
    assert bold(flat, best="none") == set()
    assert bold(flat, comparison=compare(flat, "2", "t")) == {"90.0", "30.0"}, (
        "depths, compared with depth 2"
    )


@pytest.mark.parametrize(("metric", "best"), [(METRIC, {"pair", "layer"}), ("val/loss", {"none"})])
def test_the_best_of_a_row_is_the_larger_mean_and_of_losses_the_smaller(
    run: Callable, runs: Path, metric: str, best: set[str]
):
    for norm, value in {"none": 0.5, "pair": 0.8001, "layer": 0.8002, "batch": "nan"}.items():
        run(norm=norm, depth=2, result={"metrics": {metric: value}})
    run(norm="none", depth=3, result={"metrics": {metric: 0.5}})  # without competitors
    sheet = table_sheet(tabulate(read_runs(runs), "depth", "norm", metric))
    assert {(row, sheet.head[column]) for row, column in sheet.best} == {(0, norm) for norm in best}


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
    sheet = table_sheet(tabulate(read_runs(runs), "depth"))
    notes = [line[1].partition("\n")[2] for line in sheet.lines]
    assert notes == ["", "4 of 5, 1 diverged", "4 diverged", "n = 3", "1 failed"]
    assert sheet.lines[-1][1].startswith("-\n")
    for note, words in zip(
        sheet.notes, ("%.*3 to 5 seeds", "data=Cora", "5; 4", "2 failed, 1 running"), strict=True
    ):
        assert re.search(words, note.replace(",", " ", 1) if "%" in words else note)


def test_significant_differences_have_a_star_that_is_explained(run: Callable, runs: Path):
    for seed in range(6):
        run(0.5 + seed / 100, seed, norm="none", depth=2)
        run(0.6 + seed / 100, seed, norm="pair", depth=2)
        run(0.5 + (seed % 2) / 100, seed, norm="layer", depth=2)
        if seed < 3:
            run(0.6, seed, norm="batch", depth=2)
    table = tabulate(read_runs(runs), "depth", "norm")
    comparison = compare(table, "none")
    sheet = table_sheet(table, comparison)
    assert {name for name, text in zip(sheet.head, sheet.lines[0]) if "*" in text} == {"pair"}
    assert "p < 0.05 against none, Wilcoxon" in sheet.notes[1]
    assert any("1 cell " in note and "6" in note for note in sheet.notes)
    against = comparison_sheet(table, comparison)
    assert dict(zip(against.head, against.lines[0])) | {"layer": ""} == {
        "depth": "2",
        "none": "",
        "pair": "+10.0, p = 0.031",
        "layer": "",
        "batch": "+9.0\n3 seeds",
    }


def test_agreement_with_published_numbers_is_listed_with_the_sources_below(
    run: Callable, runs: Path
):
    for seed, value in enumerate((0.80, 0.82)):
        run(value, seed, norm="lipschitz", depth=2)
    table = tabulate(read_runs(runs), "depth", "norm")
    entries = [
        {"source": source, "interval": "std", "over": "depth", "values": {2: value}}
        for source, value in [("A", "82 +- 1"), ("B", 75)]
    ]
    sheet = agreement_sheet(table, compare_published(table, parse_published(entries)))
    assert sheet.lines == (
        ("2", "lipschitz", "81.0 ± 1.4", "82.0 ± 1.0 [1]", "-1.0", "inside"),
        ("2", "lipschitz", "81.0 ± 1.4", "75.0 [2]", "+6.0", "outside"),
    )
    assert "1 inside, 1 outside" in sheet.notes[0]
    assert sheet.notes[1:] == ("[1] A", "[2] B")
    misspelt = parse_published([entries[0] | {"where": {"norm": "lipshitz"}}])
    notes = agreement_sheet(table, compare_published(table, misspelt), misspelt).notes
    assert re.match(r"\[1\] A: .*no cell", notes[1])


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("test_acc_at_best_val", "10.0", "the value of their best epoch before that"),
        ("test/acc", "42.5", "their last value"),
    ],
)
def test_a_note_says_what_diverged_runs_count_with(
    run: Callable, runs: Path, metric: str, value: str, words: str
):
    reached = {"test_acc_at_best_val": 0.1, "test/acc": 0.425}
    run(status="diverged", depth=2, result={"metrics": reached})
    sheet = table_sheet(tabulate(read_runs(runs), "depth", metric=metric))
    assert sheet.lines == (("2", f"{value}\n1 diverged"),)
    assert f"Diverged: 1; 1 of them count with {words}." in sheet.notes


def test_published_numbers_that_no_cell_has_are_named(run: Callable, runs: Path):
    run(0.8, norm="none", depth=2)
    table = tabulate(read_runs(runs), "depth", "norm")
    entry = {"source": "A", "over": "depth", "where": {"norm": "none"}}
    entries = parse_published(
        [
            entry | {"values": {2: 80, 6: 50}},
            entry | {"where": {"norm": "lipshitz"}, "values": {2: 70}},
        ]
    )
    notes = agreement_sheet(table, compare_published(table, entries), entries).notes
    assert notes[1] == "[1] A; no cell here is of depth 6; norm lipshitz"


def test_published_numbers_of_a_metric_that_is_no_percentage_stay_as_they_are(
    run: Callable, runs: Path
):
    metric = "test_mae_at_best_val"
    for seed, value in enumerate((4.5, 5.0)):
        run(seed=seed, depth=2, result={"metrics": {metric: value}})
    table = tabulate(read_runs(runs), "depth", metric=metric)
    entry = {"source": "A", "interval": "std", "over": "depth", "values": {2: "4.75 +- 0.2"}}
    published = parse_published([entry], metric=metric)
    assert published[0].numbers["2"] == PublishedNumber(4.75, 0.2, pytest.approx(0.055))
    sheet = agreement_sheet(table, compare_published(table, published), published)
    assert sheet.lines == (("2", "4.75 ± 0.3536", "4.75 ± 0.2 [1]", "+0", "inside"),)
    with pytest.raises(ReportError, match="test_mae_at_best_val has one unit: leave the key"):
        parse_published([entry | {"unit": "percent"}], metric=metric)


def sheet(*columns: str, note: str = "") -> Sheet:
    """Two rows of equal numbers, the first number of the first row in bold."""
    number = f"79.3 ± 1.2\n{note}" if note else "79.3 ± 1.2"
    lines = tuple((str(line), *[number] * len(columns)) for line in range(2))
    return Sheet("A title", ("depth", *columns), 1, lines, ("a note",), frozenset({(0, 1)}))


def read_markdown(text: str) -> list[list[str]]:
    """The fields of a Markdown table, without their escapes and bold."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    fields = [[field.strip() for field in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert set("".join(fields.pop(1))) == {"-", ":"}
    return [[re.sub(r"\\(.)", r"\1", field.replace("**", "")) for field in row] for row in fields]


def test_markdown_reads_back_as_the_same_table(table: ResultTable):
    head, *lines = read_markdown(markdown([table_sheet(table)]))
    assert head == ["depth", "a|b_c", "none"]
    for row, (label, *fields) in zip(table.rows, lines):
        assert (label,) == row
        for column, field in zip(table.columns, fields):
            cell = table.cells[row, column]
            mean, half = map(float, re.match(r"([\d.]+) ± ([\d.]+)", field).groups())
            assert mean == pytest.approx(100 * cell.mean, abs=0.05001)
            assert half == pytest.approx(100 * cell.half_width("std"), abs=0.05001)
    assert "(2 of 3, 1 diverged)" in lines[0][2]
    text = markdown([sheet("none", "pair")]).splitlines()
    assert (text[0], text[4], text[-1]) == (
        "**A title**",
        "| 0 | **79.3 ± 1.2** | 79.3 ± 1.2 |",
        "- a note",
    )


@given(
    st.lists(
        st.text(st.characters(codec="ascii", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e")),
        min_size=1,
    )
)
def test_no_label_breaks_a_markdown_table(labels: list[str]):
    head, line = read_markdown(markdown([Sheet("", ("x", *labels), 1, (("1", *labels),))]))
    assert len(head) == len(line) == 1 + len(labels)


def test_latex_is_a_booktabs_table_with_equally_many_fields_in_every_line_and_balanced_braces(
    table: ResultTable,
):
    text = latex([table_sheet(table), sheet("2", "2", note="4 of 5")])
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert re.findall(r"\\(\w+rule)", text) == ["toprule", "midrule", "bottomrule"] * 2
    assert r"0 & \textbf{79.3 $\pm$ 1.2} {\footnotesize(4 of 5)} & 79.3 $\pm$ 1.2" in text
    bare = re.sub(r"\\[&%$#_{}]", "", text)
    depth = 0
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    assert "_" not in bare
    for tabular in re.findall(
        r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", bare, re.DOTALL
    ):
        lines = [line for line in tabular[1].splitlines() if line.endswith(r"\\")]
        assert len(lines) == 3
        assert all(line.count("&") == len(tabular[0]) - 1 for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.num_layers", r"model.num\_layers"),
        ("a\\b~^", r"a\textbackslash{}b\textasciitilde{}\textasciicircum{}"),
        ("-1.0", "$-$1.0"),
        ("[]", "{[}]"),
        ("a|b", r"a\textbar{}b"),
        ("2026-11-21", "2026-11-21"),
    ],
)
def test_latex_prints_every_character_as_it_is(text: str, expected: str):
    assert latex_text(text) == expected


@pytest.mark.parametrize(("columns", "width"), [(4, 40), (12, 80)])
def test_a_terminal_shows_every_number_whole_whatever_its_width(columns: int, width: int):
    names = [f"norm {place}" for place in range(columns)]
    text = terminal([sheet(*names, note="4 of 5, 1 diverged")], width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("79.3 ± 1.2") == text.count("4 of 5, 1 diverged") == 2 * columns
    assert all(text.count(f" {name} ") + text.count(f" {name}\n") == 1 for name in names)


def test_only_a_styled_terminal_has_codes_and_square_brackets_are_not_markup():
    assert "\x1b" not in terminal([sheet("none")], 80)
    assert "\x1b[1m79.3 ± 1.2" in terminal([sheet("none")], 80, styled=True)
    assert (
        terminal([Sheet("[red]", ("[red]",), 1, (("[red]",),), ("[red]",))], 80).count("[red]") == 4
    )


def test_text_on_a_page_is_text_whatever_it_contains():
    text = html_page(
        [Sheet("A & B", ("a<b",), 1, (("<script>\nlong " + "x" * 99,),), ("x & y",))], "<i>"
    )
    assert "<script>" not in text
    for part in (
        "<h1>&lt;i&gt;</h1>",
        "A &amp; B",
        "&lt;script&gt;<br>long " + "x" * 99,
        "x &amp; y",
    ):
        assert part in text


@pytest.mark.parametrize("log10", [True, False])
def test_measures_of_the_first_and_the_last_layer_are_geometric_means(runs: Path, log10: bool):
    for norm, seed, values in (
        ("none", 0, [1e-8, 1e-4, 1e-2]),
        ("none", 1, [1e-6, 1e-4, 1e-2]),
        ("pair", 0, [2.0, 1.0, 0.0]),
    ):
        numbers = np.array([values, [5.0, 5.0, 5.0]])
        with np.errstate(divide="ignore"):
            kept = np.log10(numbers) if log10 else numbers
        measure = MeasureValues("mu", np.array([0, 3]), kept, "mu", log10)
        make_run(runs, {"norm": norm}, seed, measures=[measure])
    frame = read_runs(runs)
    sheet = measures_sheet(frame, ("norm",), ["mu"])
    assert sheet.head == ("norm", "mu")
    # 10^-7 is the geometric mean of the first layers.
    assert set(sheet.lines) == {("none", "1e-07 -> 0.01"), ("pair", "2 -> 0")}
    at_the_end = measures_sheet(frame, ("norm",), ["mu"], "end")
    assert set(at_the_end.lines) == {("none", "5 -> 5"), ("pair", "5 -> 5")}


def test_options_of_measures_are_checked_before_anything_runs():
    check_measures(["mu"], "end")
    with pytest.raises(ReportError, match="'names' must be a list of measures, not 'mu'"):
        check_measures("mu")
    with pytest.raises(ReportError, match="Did you mean 'start'"):
        check_measures(["mu"], "star")
