"""What can be reproduced: a grid, the numbers of a paper, and the table or figure that they stand in."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.files import Config, read
from gnn_depth.registry import unknown

KEYS = ("title", "source", "grid", "table", "figure", "published")
NEEDED = ("title", "source", "grid", "table")
FOLDER = Path("configs") / "reproduce"


@dataclass(frozen=True)
class Item:
    """A table or figure of a paper.

    Attributes:
        name: Its path below the folder of all items: ``lipschitz/depth``.
        title: What it shows.
        source: The paper.
        grid: File of the grid whose runs it is made of.
        table: Axes of the table's rows and columns.
        figure: Kind of figure and its options; empty where there is none.
        published: The paper's numbers, see ``reports.published``.
    """

    name: str
    title: str
    source: str
    grid: Path
    table: dict[str, Any]
    figure: dict[str, Any]
    published: list[Any]


def folders() -> list[Path]:
    """Where items are sought: the working directory, the source tree, the installed package's share."""
    source = Path(__file__).parents[2]
    return [Path(), source, Path(sys.prefix) / "share" / "gnn_depth"]


def names() -> dict[str, Path]:
    """Every item and its file; the first folder that has one counts."""
    found: dict[str, Path] = {}
    for top in (folder / FOLDER for folder in folders()):
        for path in sorted(top.rglob("*.yaml")):
            found.setdefault(path.relative_to(top).with_suffix("").as_posix(), path)
    return found


def load(name: str) -> Item:
    """An item by its name, or by its file.

    Raises:
        UsageError: There is no such item, or its file is none.
    """
    if name.endswith((".yaml", ".yml")):
        return _item(Path(name).stem, read(name, labels=True))
    known = names()
    if name not in known:
        raise UsageError(unknown("item", name, known))
    return _item(name, read(str(known[name]), labels=True))


def every() -> Iterator[Item]:
    """All items, by name."""
    return (load(name) for name in sorted(names()))


def _item(name: str, config: Config) -> Item:
    for key in config.data:
        if key not in KEYS:
            raise UsageError(f"{config.at((key,))}: {unknown('key of an item', key, KEYS)}")
    for key in NEEDED:
        if not config.data.get(key):
            raise UsageError(f"{config.source}: an item needs the key {key!r}.")
    content = {key: config.data.get(key) for key in KEYS}
    for key, kind, what in (("table", dict, "axes"), ("figure", dict, "options"), ("published", list, "numbers")):
        if not isinstance(content[key], kind | None):
            raise UsageError(f"{config.at((key,))}: {key} is a {kind.__name__} of {what}, not {content[key]!r}.")
    return Item(
        name,
        str(content["title"]),
        str(content["source"]),
        Path(config.source).parent / str(content["grid"]),
        content["table"],
        content["figure"] or {},
        content["published"] or [],
    )
