"""``gnn-depth reproduce``: rerun a paper's table or figure and compare with the published numbers.

An item is a file below ``configs/reproduce``: a grid, the published numbers, and the table or
figure they stand in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gnn_depth.cli import sweep
from gnn_depth.cli.config import Arguments
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import call
from gnn_depth.config_file import read_config, shipped
from gnn_depth.part_specs import items_of
from gnn_depth.ranges import Count
from gnn_depth.registry import unknown
from gnn_depth.runs import new_run_folder


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper."""

    name: str  # its path below the folder of all items: lipschitz/depth
    file: str
    title: str
    source: str  # the paper
    grid: Path  # file of the grid of its runs
    table: dict[str, Any]  # axes of the table's rows and columns
    figure: dict[str, Any] = field(default_factory=dict)  # its kind and options
    published: list[Any] = field(default_factory=list)  # numbers, see reports.published


def main(
    arguments: Arguments,
    item: str | None = None,
    *,
    list_: bool = False,
    available: bool = False,
    subset: list[str] | None = None,
    seeds: Count | None = None,
    root: str = "runs",
    workers: Count | None = None,
    engine: Literal["local", "dask"] = "local",
    address: str | None = None,
    force: bool = False,
) -> int:
    """Run the missing runs of a paper's table or figure, and show our numbers beside the published
    ones.

    Args:
        item: An item such as lipschitz/depth, or a file.
        list_: Show all items and the number of their runs.
        available: Skip runs whose data is not on this machine.
        subset: Run only these values of an axis: AXIS=VALUE or AXIS=VALUE,VALUE.
        seeds: Number of seeds, counted from 0; by default the file's seeds.
        root: Folder of all runs, by default runs; the sweep gets a folder of its name there.
        workers: Runs at once; by default one per core, or per GPU if there are any.
        engine: Where to run: local processes (default), or jobs of a cluster.
        address: Address of a Dask cluster's scheduler: tcp://HOST:8786.
        force: Archive existing results, and run all again.
    """
    if arguments.trusted is None:  # a paper's configs need no class from outside
        arguments = replace(arguments, trusted=True)
    items = sorted(shipped("reproduce"))
    if list_:
        for each in map(load_item, items):
            grid = sweep.load_grid(str(each.grid), arguments.trusted)
            count = len(grid.seeds) * len(list(grid.combinations()))
            print(f"{each.name}: {each.title}\n  {each.source}\n  {count} runs")
        return 0
    if not item:
        raise UsageError(f"an item is missing. Available: {', '.join(items)}.")
    asked = load_item(item)
    code = sweep.main(
        arguments,
        str(asked.grid),
        available=available,
        subset=subset,
        seeds=seeds,
        root=root,
        workers=workers,
        engine=engine,
        address=address,
        force=force,
    )
    if code <= 1:  # not interrupted
        _show(asked, root, subset or [])
    return code


def load_item(name: str) -> Item:
    """Load an item by its name, or from a file."""
    config = read_config(name, labels=True, below="reproduce")
    _, _, *known = Item.__dataclass_fields__  # all but its name and file
    for key in config.data:
        if key not in known:
            raise UsageError(f"{config.at((key,))}: {unknown('key of an item', key, known)}")
    try:
        grid = Path(config.name).parent / config.data["grid"]
        return Item(name, config.name, **config.data | {"grid": grid})
    except (KeyError, TypeError) as error:
        needs = "an item needs title, source, grid and table"
        raise UsageError(f"{config.name}: {needs}: {error}.") from error


def _show(item: Item, root: str, subset: list[str]) -> None:
    """Print an item's table beside the published one, and write it and the figure to a folder.

    The folder is ``reproduced/ITEM/DATE_TIME``, below that of all runs.
    """
    # The reports bring pandas, which the start of the workers need not wait for.
    from gnn_depth.cli import plot, table
    from gnn_depth.reports.figures import FORMATS

    runs = [str(Path(root, sweep.load_grid(str(item.grid)).name)), "--where", *subset]
    published = []
    if item.published:
        published = ["--published", item.file]
    folder = new_run_folder(Path(root, "reproduced"), item.name)
    print(f"\n{item.title}\n{item.source}\n")
    words = [*runs, *_flags(item.table), *published]
    call("table", table.main, words)
    call("table", table.main, [*words, "--output", f"{folder}/table.md"])
    call("table", table.main, [*words, "--output", f"{folder}/runs.csv"])
    if item.figure:
        figure = dict(item.figure)
        kind = figure.pop("kind", "depth")
        if kind == "depth":
            figure["published"] = published[1:]
        outputs = [f"{folder}/figure{suffix}" for suffix in FORMATS]
        words = [kind, *runs, *_flags(figure), "--title", item.title, "--output", *outputs]
        call("plot", plot.main, words)


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Options of a table or figure as words of its command."""
    words: list[str] = []
    for name, value in options.items():
        words += [f"--{name}", *map(str, items_of(value))]
    return words
