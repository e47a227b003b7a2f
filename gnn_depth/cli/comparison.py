"""An item's table and figure, on the screen and in files."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.items import Item
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.cli.reports import load_runs
from gnn_depth.reports import figures
from gnn_depth.reports.formats import latex, markdown, terminal
from gnn_depth.reports.load import ReportError, ReportWarning
from gnn_depth.reports.published import compare_published, parse
from gnn_depth.reports.sheets import agreement_sheet, table_sheet
from gnn_depth.reports.table import METRIC, tabulate, to_csv
from gnn_depth.runs import new_run_folder
from gnn_depth.sweeps.grid import Grid, GridError

if TYPE_CHECKING:  # it brings torch, and the workers have not begun to import theirs yet
    from gnn_depth.cli.plans import Plan


def check(item: Item, grid: Grid) -> None:
    """Refuse, before anything runs, an item that could not be shown.

    Raises:
        UsageError: It asks for an axis or an option that does not exist, or its numbers are not understood.
    """
    try:
        parse(item.published, item.name)
        figures.check_options(_kind(item), _options(item))
        for axis in [axis for key in ("rows", "columns") for axis in _listed(item.table.get(key, []))]:
            grid.axis_called(axis)
    except (ReportError, GridError) as error:
        raise UsageError(f"{item.name}: {error}") from error


def show(item: Item, plan: "Plan", root: Path) -> None:
    """Print an item's table beside the published one, and write table and figure into a new folder.

    Args:
        item: What is shown.
        plan: Its runs.
        root: Where to write ``ITEM/DATE_TIME/``: ``table.md``, ``table.tex``, ``runs.csv``, ``figure.png``,
            ``figure.pdf`` and ``figure.html``.

    Raises:
        UsageError: The item asks for an axis or a figure that does not exist, or no run has ended.
    """
    try:
        frame = _in_order(load_runs([str(plan.store.folder)], []), plan)
        table = tabulate(frame, **({"metric": METRIC, "spread": "std"} | item.table))
        published = parse(item.published, item.name)
        sheets = [table_sheet(table)]
        if published:
            sheets.append(agreement_sheet(table, compare_published(table, published), published))
        print(f"\n{item.title}\n{item.source}\n\n{terminal(sheets, styled=sys.stdout.isatty())}", end="")
        folder = new_run_folder(root, item.name)
        for name, text in (("table.md", markdown(sheets)), ("table.tex", latex(sheets)), ("runs.csv", to_csv(table))):
            (folder / name).write_text(text, encoding="utf-8")
        if item.figure:
            with plain_warnings(ReportWarning):
                chart = figures.chart(_kind(item), frame, published, **_options(item))
            for suffix in figures.FORMATS:
                figures.save(chart, folder / f"figure{suffix}", item.title)
    except ReportError as error:
        raise UsageError(f"{item.name}: {error}") from error
    print(f"table and figure: {folder}")


def _in_order(frame: pd.DataFrame, plan: "Plan") -> pd.DataFrame:
    """The plan's runs, in its order: that of rows and columns."""
    place = {run.place.identity: number for number, run in enumerate(plan.runs)}
    places = frame["identity"].map(place).dropna().sort_values()
    return frame.loc[places.index].reset_index(drop=True)


def _kind(item: Item) -> str:
    return str(item.figure.get("kind", "depth"))


def _options(item: Item) -> dict[str, Any]:
    return {key: value for key, value in item.figure.items() if key != "kind"}


def _listed(names: Any) -> list[str]:
    return names if isinstance(names, list) else [names]
