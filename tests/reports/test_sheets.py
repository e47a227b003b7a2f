"""Tables of text, and their formats."""

import re

import pandas as pd
import pytest

from gnn_depth.reports import read_runs
from gnn_depth.reports.sheets import Sheet, markdown, table_sheet
from gnn_depth.reports.table import tabulate


def test_a_cell_says_what_could_not_be_averaged_and_the_notes_count_it(run, runs):
    for seed in range(5):
        run(0.5, seed, depth=2, data="Cora")
        run(0.5 if seed else None, seed, "finished" if seed else "diverged", depth=10, data="Cora")
        run(0.5, seed, "diverged" if seed else "finished", depth=20, data="Cora")
        if seed < 3:
            run(0.5, seed, depth=30, data="Cora")
    run(0.5, 3, "failed", depth=30, data="Cora")
    run(None, 0, "failed", depth=40, data="Cora")
    sheet = table_sheet(tabulate(read_runs(runs), "depth"))
    assert sheet.frame.iloc[:, 1].tolist() == [
        "50.0 ± 0.0",
        "50.0 ± 0.0 (4 of 5, 1 diverged)",
        "50.0 ± 0.0 (4 diverged)",
        "50.0 ± 0.0 (n = 3)",
        "- (1 failed)",
    ]
    expected = ("n=3 to 5", "5 of 18 runs diverged.", "Left out: 2 failed.")
    assert all(part in note for part, note in zip(expected, sheet.notes, strict=True))


def sheet(*columns):
    """Two rows of equal numbers."""
    lines = [[str(line), *["79.3 ± 1.2"] * len(columns)] for line in range(2)]
    frame = pd.DataFrame(lines, columns=["depth", *columns])
    return Sheet(frame, 1, ["a note"], "A title")


def read_markdown(text):
    """The fields of a Markdown table, without their escapes."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    fields = [[field.strip() for field in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert set("".join(fields.pop(1))) == {"-", ":"}
    return [[re.sub(r"\\(.)", r"\1", field) for field in row] for row in fields]


def test_markdown_reads_back_as_the_same_table(table):
    head, *lines = read_markdown(markdown([table_sheet(table)]))
    assert head == ["depth", "a|b_c", "none"]
    for row, (label, *fields) in zip(table.rows, lines):
        assert (label,) == row
        for column, field in zip(table.columns, fields):
            cell = table.cells[row, column]
            mean, half = map(float, re.match(r"([\d.]+) ± ([\d.]+)", field).groups())
            assert mean == pytest.approx(100 * cell.mean, abs=0.05001)
            assert half == pytest.approx(100 * cell.half_width("std"), abs=0.05001)
    text = markdown([sheet("none", "pair")]).splitlines()
    assert text[0] == "**A title**"
    assert text[4] == "| 0 | 79.3 ± 1.2 | 79.3 ± 1.2 |"
    assert text[-1] == "- a note"
