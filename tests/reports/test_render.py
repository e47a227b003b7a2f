import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.reports import ReportError, load
from gnn_depth.reports.cells import Table
from gnn_depth.reports.markup import latex, latex_text, markdown
from gnn_depth.reports.raw import raw, to_csv, write_parquet
from gnn_depth.reports.sheet import Entry, Sheet
from gnn_depth.reports.sheets import table_sheet
from gnn_depth.reports.tabulate import tabulate
from gnn_depth.reports.terminal import terminal
from tests.reports.conftest import METRIC


def sheet(*columns: str, entries: int = 2, note: str = "") -> Sheet:
    lines = tuple(
        (Entry(str(line)), *(Entry("79.3 ± 1.2", note=note, best=place == 0) for place in range(len(columns))))
        for line in range(entries)
    )
    return Sheet("A title", ("depth", *columns), 1, lines, ("a note",))


@pytest.fixture
def table(run: Callable, runs: Path) -> Table:
    for depth in (2, 10):
        for norm in ("none", "a|b_c"):
            for seed in range(2):
                run(depth / 100 + seed / 10, seed, depth=depth, norm=norm)
    run(None, 2, "failed", depth=2, norm="none")
    run("nan", 3, "diverged", depth=2, norm="none")
    return tabulate(load(runs), "depth", "norm")


def read_markdown(text: str) -> list[list[str]]:
    """The fields of a Markdown table, without their escapes and bold."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    fields = [[field.strip() for field in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert set("".join(fields.pop(1))) == {"-", ":"}
    return [[re.sub(r"\\(.)", r"\1", field.replace("**", "")) for field in row] for row in fields]


def test_markdown_reads_back_as_the_same_table(table: Table):
    head, *lines = read_markdown(markdown([table_sheet(table)]))
    assert head == ["depth", "a|b_c", "none"]
    for row, (label, *fields) in zip(table.rows, lines):
        assert (label,) == row
        for column, field in zip(table.columns, fields):
            cell = table.cell(row, column)
            mean, half = map(float, re.match(r"([\d.]+) ± ([\d.]+)", field).groups())
            assert mean == pytest.approx(100 * cell.mean, abs=0.05001)
            assert half == pytest.approx(100 * cell.half_width("std"), abs=0.05001)
    assert "(2 of 3, 1 diverged)" in lines[0][2]


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e")), min_size=1))
def test_no_label_breaks_a_markdown_table(labels: list[str]):
    head, line = read_markdown(markdown([Sheet("", ("x", *labels), 1, ((Entry("1"), *map(Entry, labels)),))]))
    assert len(head) == len(line) == 1 + len(labels)


def test_markdown_has_the_best_in_bold_a_title_and_notes_as_a_list():
    lines = markdown([sheet("none", "pair")]).splitlines()
    assert lines[0] == "**A title**"
    assert lines[4] == "| 0 | **79.3 ± 1.2** | 79.3 ± 1.2 |"
    assert lines[-1] == "- a note"


def test_latex_has_equally_many_fields_in_every_line_and_balanced_braces(table: Table):
    text = latex([table_sheet(table), sheet("none", "pair", note="4 of 5")])
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    bare = re.sub(r"\\[&%$#_{}]", "", text)
    depth = 0
    for letter in bare:
        depth += (letter == "{") - (letter == "}")
        assert depth >= 0
    assert depth == 0
    assert bare.count("$") % 2 == 0
    assert "%" not in bare
    assert "_" not in bare
    for tabular in re.findall(r"\\begin\{tabular\}\{([lr]+)\}(.*?)\\end\{tabular\}", bare, re.DOTALL):
        lines = [line for line in tabular[1].splitlines() if line.endswith(r"\\")]
        assert len(lines) == 3
        assert all(line.count("&") == len(tabular[0]) - 1 for line in lines)


def test_latex_uses_booktabs_and_bold():
    text = latex([sheet("none", "pair", note="4 of 5")])
    assert re.findall(r"\\(\w+rule)", text) == ["toprule", "midrule", "bottomrule"]
    assert r"0 & \textbf{79.3 $\pm$ 1.2} {\footnotesize(4 of 5)} & 79.3 $\pm$ 1.2" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model.num_layers", r"model.num\_layers"),
        ("50% & {more}", r"50\% \& \{more\}"),
        ("a\\b~^", r"a\textbackslash{}b\textasciitilde{}\textasciicircum{}"),
        ("-1.0", "$-$1.0"),
        ("[]", "{[}]"),
        ("a|b", r"a\textbar{}b"),
        ("2026-11-21", "2026-11-21"),
        ("signed-rank", "signed-rank"),
    ],
)
def test_what_latex_would_not_print_is_escaped(text: str, expected: str):
    assert latex_text(text) == expected


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("columns", [1, 4, 12])
def test_a_terminal_shows_every_number_whole_whatever_its_width(width: int, columns: int):
    names = [f"norm {place}" for place in range(columns)]
    text = terminal([sheet(*names, note="4 of 5, 1 diverged")], width)
    assert max(map(len, text.splitlines())) <= width
    assert text.count("79.3 ± 1.2") == 2 * columns
    assert text.count("4 of 5, 1 diverged") == 2 * columns
    assert all(text.count(f" {name} ") + text.count(f" {name}\n") == 1 for name in names)


def test_a_field_that_is_wider_than_the_terminal_is_folded_and_not_cut():
    text = terminal([Sheet("", ("a", "b"), 1, ((Entry("x" * 30), Entry("y" * 30)),))], 24)
    assert (text.count("x"), text.count("y")) == (30, 30)


def test_only_a_styled_terminal_has_codes():
    assert "\x1b" not in terminal([sheet("none")], 80)
    assert "\x1b[1m79.3 ± 1.2" in terminal([sheet("none")], 80, styled=True)


def test_square_brackets_are_no_markup():
    assert "[red]" in terminal([Sheet("[red]", ("[red]",), 1, ((Entry("[red]"),),), ("[red]",))], 80)


def test_raw_values_are_every_run_also_those_that_do_not_count(table: Table):
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert list(lines[0]) == ["depth", "norm", "seed", "status", METRIC, "folder"]
    assert len(lines) == 10
    back: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        if line["status"] == "finished":
            back.setdefault((line["depth"], line["norm"]), []).append(float(line[METRIC]))
    for row, column, cell in table.each():
        assert back[(*row, *column)] == cell.values
    assert [line[METRIC] for line in lines if line["status"] in ("failed", "diverged")] == ["", ""]
    assert {line["seed"] for line in lines} == {"0", "1", "2", "3"}


def test_parquet_holds_the_same(table: Table, tmp_path: Path):
    write_parquet(table, tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "runs.parquet"), raw(table))
    assert raw(table)["depth"].tolist() == [2] * 6 + [10] * 4


def test_parquet_without_its_library_names_the_extra(table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ReportError, match=r"pip install 'gnn-depth\[parquet\]'"):
        write_parquet(table, tmp_path / "runs.parquet")
