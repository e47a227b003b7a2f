"""Tables of text, and their formats."""

import re
from dataclasses import replace

from gnn_depth.reports import read_runs
from gnn_depth.reports.sheets import markdown, table_sheet
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
    sheet = table_sheet(tabulate(read_runs(runs), ["depth"]))
    assert sheet.frame.iloc[:, 1].tolist() == [
        "50.0 ± 0.0",
        "50.0 ± 0.0 (4 of 5, 1 diverged)",
        "50.0 ± 0.0 (4 diverged)",
        "50.0 ± 0.0 (n = 3)",
        "- (1 failed)",
    ]
    expected = ("n=3 to 5", "5 of 18 runs diverged: what", "Left out: 2 failed.")
    assert all(part in note for part, note in zip(expected, sheet.notes, strict=True))


def read_markdown(text):
    """The fields of a Markdown table, without their escapes."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    fields = [[field.strip() for field in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    assert set("".join(fields.pop(1))) == {"-", ":"}
    return [[re.sub(r"\\(.)", r"\1", field) for field in row] for row in fields]


def test_markdown_reads_back_as_the_same_table(table):
    sheet = table_sheet(table)
    text = markdown([replace(sheet, title="A title")])
    assert read_markdown(text) == [list(sheet.frame), *sheet.frame.to_numpy().tolist()]
    assert text.splitlines()[0] == "**A title**"
    assert text.splitlines()[-1] == f"- {sheet.notes[-1]}"
