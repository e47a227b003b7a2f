"""``gnn-depth table``: show runs as a table in the terminal or in a file."""

from argparse import Namespace
from functools import partial
from math import nan
from pathlib import Path

import pandas as pd
from jsonargparse.typing import NonNegativeFloat

from gnn_depth.cli.options import Options, load_runs
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.reports.published import compare_published, read_published
from gnn_depth.reports.settings import full_name
from gnn_depth.reports.sheets import (
    agreement_sheet,
    comparison_sheet,
    markdown,
    table_sheet,
    terminal,
)
from gnn_depth.reports.table import SPREADS, arrange, tabulate

WRITERS = {".txt": terminal, ".md": markdown}
FORMATS = (*WRITERS, ".csv")


def main(argv: list[str]) -> int:
    """Print a table, or write it to a file."""
    options = parser().parse_args(argv)
    output = None
    if options.output is not None:
        output = check_output(options.output, FORMATS)
    # After the checks of the output: reading many runs takes long.
    frame = load_runs(options.folders, options.where)
    text = _text(frame, options, output.suffix if output else ".txt")
    if output:
        write_whole(output, partial(Path.write_text, data=text, encoding="utf-8"))
        text = f"{output}\n"
    print(text, end="")
    return 0


def parser() -> Options:
    options = Options(
        "table",
        "Mean and spread over seeds, for any axes of the runs.",
        "FOLDER... [--rows AXIS...] [--columns AXIS...] [--OPTION VALUE]...",
    )
    add = options.add_argument
    add("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    rows = "axes of the rows; by default all that vary but the last"
    add("--rows", nargs="+", metavar="AXIS", help=rows)
    columns = "axes of the columns; by default the last of several"
    add("--columns", nargs="+", metavar="AXIS", help=columns)
    add("--metric", help="the metric to average; test_METRIC_at_best_val of the task by default")
    spread = "std, the standard deviation (default), or ci, the 95%% confidence interval"
    add("--spread", choices=tuple(SPREADS), default="std", help=spread)
    options.add_choice_of_values("--where", "which runs")
    against = "test all other values of an axis against this one: corrected paired t test with Holm"
    add("--compare", metavar="AXIS=VALUE", help=against)
    ratio = (
        "of --compare, where each seed has a split of its own: test rows for each training row, or "
        "0 where each seed draws new data"
    )
    add("--ratio", type=NonNegativeFloat, default=nan, help=ratio)
    add("--published", metavar="FILE", help="YAML file of published numbers to compare with")
    add("--output", metavar="FILE", help=f"file to write: {', '.join(FORMATS)}")
    return options


def _text(frame: pd.DataFrame, options: Namespace, suffix: str) -> str:
    """The table and, if requested, the comparisons with a value and with published numbers, as in
    a file with this suffix."""
    rows, columns = arrange(frame, options.rows, options.columns)
    table = tabulate(frame, rows, columns, options.metric, options.spread)
    rows_of_csv = table.runs
    sheets = [table_sheet(table)]
    if options.compare:
        from gnn_depth.reports.comparison import compare  # SciPy is slow to import

        name, _, base = options.compare.partition("=")
        axis = full_name(frame, name)
        rows_of_csv = compare(table, axis, base, options.ratio)
        sheets.append(comparison_sheet(rows_of_csv, table.metric, f"{axis}={base}"))
    if options.published:
        published = read_published(options.published, table.metric)
        sheets.append(agreement_sheet(table, compare_published(table, published), published))
    if suffix == ".csv":  # the runs themselves, or the lines of the comparison
        return str(rows_of_csv.to_csv(index=False, lineterminator="\n"))
    return WRITERS[suffix](sheets)
