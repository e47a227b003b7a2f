"""``gnn-depth table``: runs as a table, on the screen or in a file."""

import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.cli.reports import load_runs
from gnn_depth.reports.formats import latex, markdown, terminal
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import compare_published, read
from gnn_depth.reports.sheets import Sheet, agreement_sheet, comparison_sheet, table_sheet
from gnn_depth.reports.table import METRIC, SPREADS, TESTS, Table, arrange, compare, tabulate, to_csv, write_parquet

FORMATS = {"terminal": ".txt", "markdown": ".md", "latex": ".tex", "csv": ".csv", "parquet": ".parquet"}
RAW = ("csv", "parquet")  # the runs behind the table


def main(words: list[str]) -> int:
    """Print or write the table that some words ask for.

    Args:
        words: What stands behind ``gnn-depth table``.

    Raises:
        UsageError: What was asked for does not exist or does not fit.
    """
    options = parser().parse_args(words)
    output = None if options.output is None else check_output(options.output, list(FORMATS.values()))
    form = _format(options, output)
    try:
        table = _table(options)
        if output and form == "parquet":
            write_whole(output, partial(write_parquet, table))
            return 0
        styled = output is None and sys.stdout.isatty()
        text = to_csv(table) if form == "csv" else _text(_sheets(table, options), form, styled)
    except ReportError as error:
        raise UsageError(str(error)) from error
    if output:
        write_whole(output, partial(Path.write_text, data=text, encoding="utf-8"))
    else:
        print(text, end="")
    return 0


def parser() -> Options:
    options = Options(
        "table",
        "Mean and spread over seeds, for any axes of runs.",
        "FOLDER... [--rows AXIS...] [--columns AXIS...] [--OPTION VALUE]...",
    )
    options.add_argument("folders", nargs="+", metavar="FOLDER", help="folders with runs")
    options.add_argument("--rows", nargs="+", metavar="AXIS", help="axes of the rows; all but the last by default")
    options.add_argument("--columns", nargs="+", metavar="AXIS", help="axes of the columns; the last by default")
    options.add_argument("--metric", default=METRIC, help="what is averaged")
    options.add_argument(
        "--spread", choices=tuple(SPREADS), default="std", help="standard deviation, or 95%% confidence interval"
    )
    options.add_argument("--baseline", metavar="LABEL", help="column or row that all others are tested against")
    options.add_argument("--test", choices=tuple(TESTS), default="wilcoxon", help="paired test over shared seeds")
    options.add_argument("--where", nargs="+", action="extend", default=[], metavar="AXIS=VALUE,...", help="which runs")
    options.add_argument("--published", metavar="FILE", help="YAML file of published numbers to stand beside ours")
    options.add_argument("--format", choices=tuple(FORMATS), help="by the suffix of --output, or terminal")
    options.add_argument("--output", metavar="FILE", help=f"write to a file: {', '.join(FORMATS.values())}")
    return options


def _format(options: Namespace, output: Path | None) -> str:
    """The format that was asked for, or that the suffix of the output means."""
    meant = next((form for form, suffix in FORMATS.items() if output and suffix == output.suffix), "terminal")
    form: str = options.format or meant
    if output and form != meant:
        raise UsageError(f"--format {form} and --output {output} do not agree: write to a file {FORMATS[form]}.")
    if form == "parquet" and not output:
        raise UsageError("--format parquet is not for the screen: name a file with --output FILE.parquet.")
    if form in RAW and (options.baseline or options.published):
        raise UsageError(f"{form} holds the runs themselves: --baseline and --published are for the other formats.")
    return form


def _table(options: Namespace) -> Table:
    frame = load_runs(options.folders, options.where)
    rows, columns = arrange(frame, options.rows, options.columns)
    return tabulate(frame, rows, columns, options.metric, options.spread)


def _sheets(table: Table, options: Namespace) -> list[Sheet]:
    comparison = compare(table, options.baseline, options.test) if options.baseline else None
    sheets = [table_sheet(table, comparison)]
    if comparison:
        sheets.append(comparison_sheet(table, comparison))
    if options.published:
        published = read(options.published)
        sheets.append(agreement_sheet(table, compare_published(table, published), published))
    return sheets


def _text(sheets: list[Sheet], form: str, styled: bool) -> str:
    if form == "terminal":
        return terminal(sheets, styled=styled)
    return markdown(sheets) if form == "markdown" else latex(sheets)
