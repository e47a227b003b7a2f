"""``gnn-depth table``: show runs as a table in the terminal or in a file."""

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options, load_runs
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.reports.formats import html_page, latex, markdown, terminal
from gnn_depth.reports.published import compare_published, read_published
from gnn_depth.reports.settings import metric_words
from gnn_depth.reports.sheets import BEST, agreement_sheet, comparison_sheet, table_sheet
from gnn_depth.reports.table import (
    SPREADS,
    TESTS,
    ResultTable,
    arrange,
    compare,
    tabulate,
    to_csv,
    write_parquet,
)

FORMATS = {
    "terminal": ".txt",
    "markdown": ".md",
    "latex": ".tex",
    "html": ".html",
    "csv": ".csv",
    "parquet": ".parquet",
}
RUNS = ("csv", "parquet")  # formats that list the runs behind the table


def main(argv: list[str]) -> int:
    """Print a table, or write it to a file."""
    options = parser().parse_args(argv)
    output = None
    if options.output is not None:
        output = check_output(options.output, list(FORMATS.values()))
    name = _format(options, output)
    # After the checks of the output: reading many runs takes long.
    frame = load_runs(options.folders, options.where)
    rows, columns = arrange(frame, options.rows, options.columns)
    table = tabulate(frame, rows, columns, options.metric, options.spread)
    if name == "parquet":
        assert output is not None, "checked by _format"
        write_whole(output, partial(write_parquet, table))
        print(output)
        return 0
    # Colours and bold are for a terminal; a pipe gets plain text.
    styled = not output and sys.stdout.isatty()
    text = to_csv(table) if name == "csv" else _text(table, options, name, styled)
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
    add(
        "--rows",
        nargs="+",
        metavar="AXIS",
        help="axes of the rows; by default all that vary but the last",
    )
    add(
        "--columns",
        nargs="+",
        metavar="AXIS",
        help="axes of the columns; by default the last of several",
    )
    add("--metric", help="the metric to average; test_METRIC_at_best_val of the task by default")
    add(
        "--spread",
        choices=tuple(SPREADS),
        default="std",
        help="standard deviation, or 95%% confidence interval",
    )
    add("--baseline", metavar="LABEL", help="column or row to compare all others with")
    add("--test", choices=tuple(TESTS), default="wilcoxon", help="paired test over shared seeds")
    options.add_choice_of_values("--where", "which runs")
    best = (
        "what a bold number is the best of: its row, its column, the whole table, or none; by "
        "default cells with the same baseline compete, without one those along the axis that is "
        "not a number such as a depth"
    )
    add("--best", choices=BEST, default="auto", help=best)
    add("--caption", default="", help="text that says what the numbers are")
    add("--label", default="", help="label for LaTeX's \\ref; tab: and the axes by default")
    add("--published", metavar="FILE", help="YAML file of published numbers to compare with")
    add(
        "--format",
        choices=tuple(FORMATS),
        help="by default chosen by the suffix of --output, otherwise terminal",
    )
    add("--output", metavar="FILE", help=f"file to write: {', '.join(FORMATS.values())}")
    return options


def _format(options: Namespace, output: Path | None) -> str:
    """The requested format, or the one that the output's suffix implies."""
    own = "terminal"
    for known, suffix in FORMATS.items():
        if output and suffix == output.suffix:
            own = known
    name: str = options.format or own
    if output and name != own:
        raise UsageError(
            f"--format {name} and --output {output} do not agree: write to a file {FORMATS[name]}."
        )
    if name == "parquet" and not output:
        raise UsageError(
            "--format parquet cannot be printed: name a file with --output FILE.parquet."
        )
    if name in RUNS and (options.baseline or options.published):
        raise UsageError(
            f"{name} lists the runs themselves: --baseline and --published are for the other "
            "formats."
        )
    return name


def _text(table: ResultTable, options: Namespace, name: str, styled: bool) -> str:
    """The table and, if requested, the comparisons with a baseline and with published numbers."""
    comparison = compare(table, options.baseline, options.test) if options.baseline else None
    sheets = [table_sheet(table, comparison, options.best, options.caption, options.label)]
    if comparison:
        sheets.append(comparison_sheet(table, comparison))
    if options.published:
        published = read_published(options.published, table.metric)
        sheets.append(agreement_sheet(table, compare_published(table, published), published))
    if name == "html":
        return html_page(sheets, metric_words(table.metric))
    if name == "markdown":
        return markdown(sheets)
    if name == "latex":
        return latex(sheets)
    return terminal(sheets, styled=styled)
