"""A table of text, and numbers as text: before it is known whether for a terminal, Markdown or LaTeX."""

import math
import re
from dataclasses import dataclass

from gnn_depth.reports.cells import Cell, Spread

NOTHING = "-"


@dataclass(frozen=True)
class Entry:
    """One field of a sheet.

    Attributes:
        text: A label or a number.
        mark: Stands right behind it: ``*``.
        note: What is to be said of it.
        best: Whether it is the best of its row.
    """

    text: str
    mark: str = ""
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table of text.

    Attributes:
        title: What it is.
        head: Names of the columns.
        labels: How many columns on the left are labels; the others are numbers.
        lines: Fields, line by line.
        notes: Sentences that belong below it.
    """

    title: str
    head: tuple[str, ...]
    labels: int
    lines: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()


def is_percent(metric: str) -> bool:
    """Whether a metric is a fraction that is said in percent: acc, f1, auroc."""
    return re.search(r"(^|[/_])(acc|f1|auroc)([/_]|$)", metric) is not None


def say(value: float, metric: str, sign: str = "") -> str:
    """A value of a metric: percent with one decimal, four significant digits of anything else."""
    if math.isnan(value):
        return NOTHING
    return f"{100 * value:{sign}.1f}" if is_percent(metric) else f"{value:{sign}.4g}"


def say_cell(cell: Cell, metric: str, spread: Spread) -> str:
    """Mean ± spread."""
    half = cell.half_width(spread)
    return say(cell.mean, metric) + ("" if half is None else f" ± {say(half, metric)}")
