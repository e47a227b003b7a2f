"""``gnn-depth table``: show runs as a table in the terminal or in a file."""

from functools import partial
from math import nan
from pathlib import Path
from typing import Literal

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import load_runs
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.ranges import NonNegative
from gnn_depth.reports.published import compare_published, read_published
from gnn_depth.reports.settings import full_name
from gnn_depth.reports.sheets import (
    agreement_sheet,
    comparison_sheet,
    markdown,
    table_sheet,
    terminal,
)
from gnn_depth.reports.table import tabulate

WRITERS = {".txt": terminal, ".md": markdown}


def main(
    folders: list[str],
    *,
    rows: list[str] | None = None,
    columns: list[str] | None = None,
    metric: str | None = None,
    spread: Literal["std", "ci"] = "std",
    where: list[str] | None = None,
    compare: str | None = None,
    ratio: NonNegative = nan,
    published: str | None = None,
    output: str | None = None,
) -> int:
    """Show mean and spread over seeds, for any axes of the runs.

    Args:
        folders: Folders with runs.
        rows: Axes of the rows; by default all that vary but the last.
        columns: Axes of the columns; by default the last of several.
        metric: The metric to average; test_METRIC_at_best_val of the task by default.
        spread: std, the standard deviation (default), or ci, the 95% confidence interval.
        where: Only these runs: AXIS=VALUE or AXIS=VALUE,VALUE.
        compare: AXIS=VALUE: test all other values of an axis against this one, by a corrected
            paired t test with Holm.
        ratio: Of --compare, where each seed has a split of its own: test rows for each training
            row, or 0 where each seed draws new data.
        published: YAML file of published numbers to compare with.
        output: File to write: .txt, .md, or .csv with the runs themselves or the lines of the
            comparison.
    """
    file = None
    if output is not None:
        file = check_output(output, (*WRITERS, ".csv"))
    # After the check of the output: reading many runs takes long.
    frame = load_runs(folders, where)
    table = tabulate(frame, rows, columns, metric, spread)
    lines = table.runs
    sheets = [table_sheet(table)]
    if compare:
        from gnn_depth.reports import comparison  # SciPy is slow to import

        name, _, base = compare.partition("=")
        if not base:
            raise UsageError("--compare needs an axis and a value, such as norm=none.")
        axis = full_name(frame, name)
        lines = comparison.compare(table, axis, base, ratio)
        sheets.append(comparison_sheet(lines, table.metric, f"{axis}={base}"))
    if published:
        numbers = read_published(published, table.metric)
        sheets.append(agreement_sheet(table, compare_published(table, numbers), numbers))
    if file is None:
        print(terminal(sheets), end="")
        return 0
    if file.suffix == ".csv":
        text = lines.to_csv(index=False, lineterminator="\n")
    else:
        text = WRITERS[file.suffix](sheets)
    write_whole(file, partial(Path.write_text, data=text, encoding="utf-8"))
    print(file)
    return 0
