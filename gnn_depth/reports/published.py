"""Published numbers from YAML files, and their agreement with our means."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from gnn_depth.registry import unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import label, resolve, same
from gnn_depth.reports.table import Cell, Labels, Spread, Table

KEYS = ("source", "interval", "unit", "where", "over", "values")
INTERVALS = ("none", "std", "ci")
UNITS = {"percent": 100.0, "fraction": 1.0}
NUMBER = re.compile(r"\s*(-?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?:(?:\+-|\+/-|±)\s*(\d+(?:\.\d*)?(?:e-?\d+)?))?\s*")
ROUNDING = 1e-9  # 0.821 is not quite 82.1 / 100

Level: TypeAlias = Literal["inside", "overlapping", "outside", "no value"]


@dataclass(frozen=True)
class Number:
    """A published number, in the unit of our metrics: accuracies are fractions.

    Attributes:
        mean: The number.
        half: The number after its ±, if it has one.
    """

    mean: float
    half: float | None = None


@dataclass(frozen=True)
class Published:
    """Numbers from one table of a paper.

    Attributes:
        source: The citation.
        interval: What stands after ±; None where the paper gives no interval.
        where: Axis -> label, for the axes that are fixed.
        over: The axis along which the numbers vary.
        numbers: Label on that axis -> number.
    """

    source: str
    interval: Spread | None
    where: Mapping[str, str]
    over: str
    numbers: Mapping[str, Number]


@dataclass(frozen=True)
class Agreement:
    """Our mean compared with a published one.

    Attributes:
        row, column: Labels of the cell.
        published: The table that the number comes from.
        number: The published number.
        cell: Our runs.
        level: See `agreement_of`.
    """

    row: Labels
    column: Labels
    published: Published
    number: Number
    cell: Cell
    level: Level

    @property
    def difference(self) -> float:
        """Our mean minus the published one."""
        return self.cell.mean - self.number.mean


def read(path: str | Path) -> list[Published]:
    """Read the published numbers of a YAML file.

    Raises:
        ReportError: The file cannot be read, or an entry is malformed.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReportError(f"{str(path)!r} is not YAML: {' '.join(str(error).split())}.") from error
    return parse(content, str(path))


def parse(entries: Any, origin: str = "published") -> list[Published]:
    """The published numbers of a file, or those below its key ``published``.

    Args:
        entries: The parsed YAML: a list of entries with the keys ``source``, ``interval``, ``unit``, ``where``,
            ``over``, ``values``.
        origin: The file's name, for errors.

    Raises:
        ReportError: An entry is malformed; it is named.
    """
    if isinstance(entries, dict) and "published" in entries:
        entries = entries["published"]
    if not isinstance(entries, list):
        raise ReportError(f"{origin}: published numbers must be a list of entries, not {entries!r}.")
    return [_entry(entry, f"{origin}, entry {place}") for place, entry in enumerate(entries, start=1)]


def _entry(entry: Any, name: str) -> Published:
    if not isinstance(entry, dict):
        raise ReportError(f"{name} must be a mapping of keys to values, not {entry!r}.")
    name = f"{name} ({entry.get('source')})" if entry.get("source") else name
    for key in entry:
        if key not in KEYS:
            raise ReportError(f"{name}: {unknown('key', str(key), KEYS)}")
    for key in ("source", "over", "values"):
        if not entry.get(key):
            raise ReportError(f"{name} needs the key {key!r}.")
    interval, unit = str(entry.get("interval", "none")), entry.get("unit", "percent")
    for key, value, choices in (("interval", interval, INTERVALS), ("unit", unit, UNITS)):
        if value not in choices:
            raise ReportError(f"{name}: {unknown(key, str(value), choices)}")
    where, values = entry.get("where") or {}, entry["values"]
    for key, value in (("where", where), ("values", values)):
        if not isinstance(value, dict):
            raise ReportError(f"{name}: {key!r} must be a mapping of keys to values, not {value!r}.")
    return Published(
        str(entry["source"]),
        None if interval == "none" else interval,  # type: ignore[arg-type]
        {str(axis): _label(value) for axis, value in where.items()},
        str(entry["over"]),
        {
            _label(key): _number(value, UNITS[unit], interval, f"{name}, value of {key}")
            for key, value in values.items()
        },
    )


def _label(value: Any) -> str:
    return "null" if value is None else label(value)


def _number(value: Any, unit: float, interval: str, name: str) -> Number:
    match = None if isinstance(value, bool) else NUMBER.fullmatch(str(value))
    if match is None:
        raise ReportError(f"{name} must be a number, or a text such as '78.0 +- 1.2', not {value!r}.")
    mean, half = match[1], match[2]
    if half is not None and interval == "none":
        raise ReportError(f"{name}: {value!r} has a +-, so give its meaning: interval: std or interval: ci.")
    return Number(float(mean) / unit, None if half is None else float(half) / unit)


def compare_published(table: Table, published: Sequence[Published]) -> list[Agreement]:
    """Compare every cell with the published numbers for it; several sources give several comparisons.

    Args:
        table: Our means.
        published: Numbers of papers.

    Raises:
        ReportError: An entry names an axis that our runs do not have.
    """
    ours = [cell.settings for _, _, cell in table.each() if cell.settings]
    named = list(dict.fromkeys((*table.row_names, *table.column_names, *table.axes)))
    known = list(dict.fromkeys([*named, *(name for settings in ours for name in settings)]))
    # Settings that all cells share also describe a cell without runs.
    shared = {name: text for name, text in ours[0].items() if all(other.get(name) == text for other in ours)}
    fixed = [{resolve(axis, named, known): text for axis, text in entry.where.items()} for entry in published]
    over = [resolve(entry.over, named, known) for entry in published]
    found = []
    for row, column, cell in table.each():
        here = shared | dict(cell.settings) | table.labels(row, column)
        for entry, where, axis in zip(published, fixed, over, strict=True):
            fits = all(same(here.get(name, ""), text) for name, text in where.items())
            for text, number in entry.numbers.items():
                if fits and same(here.get(axis, ""), text):
                    level = agreement_of(cell, number, entry.interval)
                    found.append(Agreement(row, column, entry, number, cell, level))
    return found


def agreement_of(cell: Cell, number: Number, interval: Spread | None) -> Level:
    r"""The position of our mean m relative to a published number a ± h.

    ``inside`` if :math:`|m - a| \le h`; ``overlapping`` if :math:`|m - a| \le h + w`, where w is our own interval of
    the same kind (the standard deviation, with h = 0, for a number without an interval); ``outside`` otherwise; ``no
    value`` if we have none.

    Args:
        cell: Our runs.
        number: a and h.
        interval: What h is; None where there is none.
    """
    distance = abs(cell.mean - number.mean) - ROUNDING
    half, width = number.half, cell.half_width(interval or "std")
    if math.isnan(distance):
        return "no value"
    if half is not None and distance <= half:
        return "inside"
    if width is not None and distance <= (half or 0.0) + width:
        return "overlapping"
    return "outside"
