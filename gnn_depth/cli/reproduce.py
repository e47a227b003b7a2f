"""``gnn-depth reproduce``: rerun a paper's table or figure and compare with the published numbers.

An item is a file below ``configs/reproduce``: a grid, the published numbers, and the table or
figure they stand in.
"""

import argparse
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnn_depth.cli.config import Arguments, read_arguments
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options, load_runs, positive_float
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.cli.sweep import (
    add_options,
    chosen_part,
    grid_for,
    load_grid,
    open_pool,
    run_plan,
    split_overrides,
)
from gnn_depth.config_file import read_config, shipped
from gnn_depth.registry import hint, unknown
from gnn_depth.runs import new_run_folder
from gnn_depth.sweeps.grid import Grid, GridError
from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.store import ResultWarning

KEYS = {
    "title": str,
    "source": str,
    "grid": str,
    "table": dict,
    "measures": dict,
    "figure": dict,
    "published": list,
}


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper."""

    name: str  # its path below the folder of all items: lipschitz/depth
    title: str
    source: str  # the paper
    grid: Path  # file of the grid of its runs
    table: dict[str, Any]  # axes of the table's rows and columns
    measures: dict[
        str, Any
    ]  # names of measures of layers to print, and when; empty if there are none
    figure: dict[str, Any]  # kind of figure and its options; empty if there is none
    published: list[Any]  # the paper's numbers, see reports.published


def main(argv: list[str]) -> int:
    """Run the missing runs of an item, and show the results beside the published numbers."""
    overrides, argv = split_overrides(argv)
    options, arguments = parser().parse_args(argv), read_arguments(overrides)
    if arguments.trusted is None:  # a paper's configs need no class from outside
        arguments = replace(arguments, trusted=True)
    if options.list:
        for item in map(load_item, sorted(item_files())):
            grid = load_grid(str(item.grid), arguments.trusted)
            count = len(grid.seeds) * sum(1 for _ in grid.combinations())
            print(f"{item.name}: {item.title}\n  {item.source}\n  {count} runs")
        return 0
    if not options.item:
        raise UsageError(f"an item is missing. Available: {', '.join(sorted(item_files()))}.")
    return _reproduce(load_item(options.item), arguments, options)


def parser() -> Options:
    parser = Options(
        "reproduce",
        "Run the missing runs of a paper's table or figure, and show our numbers beside the "
        "published ones.",
        "ITEM [--subset AXIS=VALUE,...] [--max-hours H] | --list",
    )
    add = parser.add_argument
    add("item", nargs="?", help="an item such as lipschitz/depth, or a file")
    add("--list", action="store_true", help="show all items and the number of their runs")
    available = "skip runs whose data is not on this machine"
    add("--available", action="store_true", help=available)
    add("--max-hours", type=positive_float, help="start no run after this time")
    add_options(parser)
    return parser


def _reproduce(item: Item, arguments: Arguments, options: argparse.Namespace) -> int:
    whole, folder = grid_for(str(item.grid), arguments)
    if whole.search is not None:
        raise UsageError(
            f"{item.grid.name} has a search: an item needs a grid that lists its runs."
        )
    grid = chosen_part(whole, options)
    # Before hours of training: what cannot be shown afterwards is refused.
    _check(item, grid)
    deadline = time.monotonic() + 3600 * (options.max_hours or math.inf)
    with plain_warnings(ResultWarning), open_pool(options) as pool:
        from gnn_depth.cli.grid_runs import plan_of

        absent: dict[str, str] = {}
        known = absent if options.available else None
        plan = plan_of(grid, folder, arguments, options.root, known)
        if absent:
            reason = next(iter(absent.values())).splitlines()[0]
            print(f"{len(absent) * len(grid.seeds)} runs more whose data is not here: {reason}")
        if not plan.runs:
            raise UsageError(f"no runs are left in {item.name}.")
        code = run_plan(plan, pool, options, deadline)
    if any(record.is_result for record in plan.found()):
        _show(item, plan)
    else:
        print("no run has ended, so there is nothing to show")
    return code


def item_files() -> dict[str, Path]:
    """Every item and its file."""
    return shipped("reproduce")


def load_item(name: str) -> Item:
    """Load an item by its name, or from a file."""
    if name.endswith((".yaml", ".yml")):
        name, config = Path(name).stem, read_config(name, labels=True)
    elif name in item_files():
        config = read_config(str(item_files()[name]), labels=True)
    else:
        near = hint(name, item_files())
        raise UsageError(f"unknown item {name!r}.{near} See gnn-depth reproduce --list for all.")
    content = {"measures": {}, "figure": {}, "published": []} | config.data
    for key in content:
        if key not in KEYS:
            raise UsageError(f"{config.at((key,))}: {unknown('key of an item', key, KEYS)}")
    for key, kind in KEYS.items():
        if key not in content:
            raise UsageError(f"{config.name}: an item needs the key {key!r}.")
        if not isinstance(content[key], kind):
            raise UsageError(
                f"{config.at((key,))}: {key} is a {kind.__name__}, not {content[key]!r}."
            )
    return Item(name, **content | {"grid": Path(config.name).parent / content["grid"]})


# The reports bring pandas, which the completion of item names and the start of the workers need not
# wait for.


def _check(item: Item, grid: Grid) -> None:
    """Refuse an item that could not be displayed, before anything runs."""
    from gnn_depth.reports import figures
    from gnn_depth.reports.load import ReportError
    from gnn_depth.reports.published import parse_published

    try:
        parse_published(item.published, item.name)
        if item.figure:
            kind, options = _figure(item)
            figures.check_options(kind, options)
        for key in item.measures:
            if key not in ("names", "when"):
                raise ReportError(unknown("key of measures", key, ("names", "when")))
        for axis in (*item.table.get("rows", []), *item.table.get("columns", [])):
            grid.axis_called(axis)
    except (ReportError, GridError) as error:
        raise UsageError(f"{item.name}: {error}") from error


def _show(item: Item, plan: Plan) -> None:
    """Print an item's table beside the published one, and write it and the figure to a folder.

    The folder is ``reproduced/ITEM/DATE_TIME``, below that of all runs.
    """
    from gnn_depth.reports import figures
    from gnn_depth.reports.published import compare_published, parse_published
    from gnn_depth.reports.sheets import (
        agreement_sheet,
        latex,
        markdown,
        measures_sheet,
        table_sheet,
        terminal,
    )
    from gnn_depth.reports.table import tabulate

    frame = load_runs([str(plan.store.folder)], [])
    # In the order of the plan, which is that of the table's rows and columns.
    place = {run.key.identity: number for number, run in enumerate(plan.runs)}
    order = frame["identity"].map(place).dropna().sort_values()
    frame = frame.loc[order.index].reset_index(drop=True)
    table = tabulate(frame, **item.table)
    published = parse_published(item.published, item.name, table.metric)
    sheets = [table_sheet(table)]
    if published:
        sheets.append(agreement_sheet(table, compare_published(table, published), published))
    if item.measures:
        sheets.append(measures_sheet(frame, table.names, **item.measures))
    print(f"\n{item.title}\n{item.source}\n\n{terminal(sheets)}", end="")
    folder = new_run_folder(plan.store.root / "reproduced", item.name)
    (folder / "table.md").write_text(markdown(sheets), encoding="utf-8")
    (folder / "table.tex").write_text(latex(sheets), encoding="utf-8")
    table.runs.to_csv(folder / "runs.csv", index=False)
    if item.figure:
        kind, options = _figure(item)
        if kind == "depth":
            options["published"] = published
        picture = figures.draw(kind, frame, **options)
        picture.finish(item.title)
        for suffix in figures.FORMATS:
            picture.save(folder / f"figure{suffix}")
    print(f"table and figure: {folder}")


def _figure(item: Item) -> tuple[str, dict[str, Any]]:
    """The kind of an item's figure, and its options."""
    options = dict(item.figure)
    return str(options.pop("kind", "depth")), options
