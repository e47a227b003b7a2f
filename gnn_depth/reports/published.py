"""Published numbers from YAML files, and their agreement with our means."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from gnn_depth.registry import unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import Labels, label, resolve, same
from gnn_depth.reports.table import Cell, Spread, Table
from gnn_depth.yaml_limits import safe_load

KEYS = ("source", "interval", "unit", "where", "over", "values")
INTERVALS: dict[str, Spread | None] = {"none": None, "std": "std", "ci": "ci"}
UNITS = {"percent": 100.0, "fraction": 1.0}
NUMBER = re.compile(
    r"\s*(-?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?:(?:\+-|\+/-|±)\s*(\d+(?:\.\d*)?(?:e-?\d+)?))?\s*"
)
ROUNDING = 1e-9  # 0.821 is not quite 82.1 / 100

Level: TypeAlias = Literal["inside", "overlapping", "outside", "no value"]


class Number(NamedTuple):
    """A published mean and the number after its ±, if it has one; accuracies are fractions, as in
    our metrics."""

    mean: float
    half: float | None = None


@dataclass(frozen=True)
class Published:
    """Numbers from one table of a paper."""

    source: str  # the citation
    interval: Spread | None  # what stands after ±; None where the paper gives no interval
    where: Mapping[str, str]  # axis -> label, for the axes that are fixed
    over: str  # the axis along which the numbers vary
    numbers: Mapping[str, Number]  # label on that axis -> number


@dataclass(frozen=True)
class Agreement:
    """Our mean compared with a published one."""

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
    """Read the published numbers of a YAML file."""
    try:
        content = safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReportError(f"{str(path)!r} is not YAML: {' '.join(str(error).split())}.") from error
    return parse(content, str(path))


def parse(entries: Any, origin: str = "published") -> list[Published]:
    """The published numbers of a parsed YAML file, or those below its key ``published``; errors
    name the origin."""
    if isinstance(entries, dict) and "published" in entries:
        entries = entries["published"]
    if not isinstance(entries, list):
        raise ReportError(
            f"{origin}: published numbers must be a list of entries, not {entries!r}."
        )
    found = []
    for place, entry in enumerate(entries, start=1):
        source = f" ({entry['source']})" if isinstance(entry, dict) and entry.get("source") else ""
        try:
            found.append(_entry(entry))
        except ReportError as error:
            raise ReportError(f"{origin}, entry {place}{source}: {error}") from error
    return found


def _entry(entry: Any) -> Published:
    entry = _mapping("an entry", entry)
    for key in entry:
        if key not in KEYS:
            raise ReportError(unknown("key", str(key), KEYS))
    for key in ("source", "over", "values"):
        if not entry.get(key):
            raise ReportError(f"the key {key!r} is missing.")
    interval, unit = str(entry.get("interval", "none")), str(entry.get("unit", "percent"))
    for key, value, choices in (("interval", interval, INTERVALS), ("unit", unit, UNITS)):
        if value not in choices:
            raise ReportError(unknown(key, value, choices))
    numbers = {}
    for key, value in _mapping("'values'", entry["values"]).items():
        match = None if isinstance(value, bool) else NUMBER.fullmatch(str(value))
        if match is None:
            raise ReportError(
                f"value of {key} must be a number, or a text such as '78.0 +- 1.2', not {value!r}."
            )
        mean, half = (
            None if text is None else float(text) / UNITS[unit] for text in match.groups()
        )
        assert mean is not None
        if half is not None and interval == "none":
            raise ReportError(
                f"value of {key}: {value!r} has a +-, so give its meaning: interval: std or "
                "interval: ci."
            )
        numbers[_label(key)] = Number(mean, half)
    where = {
        str(axis): _label(value)
        for axis, value in _mapping("'where'", entry.get("where") or {}).items()
    }
    return Published(str(entry["source"]), INTERVALS[interval], where, str(entry["over"]), numbers)


def _mapping(name: str, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise ReportError(f"{name} must be a mapping of keys to values, not {value!r}.")
    return value


def _label(value: Any) -> str:
    return "null" if value is None else label(value)


def compare_published(table: Table, published: Sequence[Published]) -> list[Agreement]:
    """Compare every cell with the published numbers for it; several sources give several
    comparisons."""
    ours = [cell.settings for cell in table.cells.values() if cell.settings]
    names = (*table.row_names, *table.column_names)
    named = list(dict.fromkeys((*names, *table.axes)))
    known = list(dict.fromkeys([*named, *(name for settings in ours for name in settings)]))
    # Settings that all cells share also describe a cell without runs.
    shared = {
        name: text
        for name, text in (*ours, {})[0].items()
        if all(other.get(name) == text for other in ours)
    }
    fixed = [
        {resolve(axis, named, known): text for axis, text in entry.where.items()}
        for entry in published
    ]
    over = [resolve(entry.over, named, known) for entry in published]
    found = []
    for (row, column), cell in table.cells.items():
        here = shared | dict(cell.settings) | dict(zip(names, (*row, *column), strict=True))
        for entry, where, axis in zip(published, fixed, over, strict=True):
            fits = all(same(here.get(name, ""), text) for name, text in where.items())
            for text, number in entry.numbers.items():
                if fits and same(here.get(axis, ""), text):
                    level = agreement_of(cell, number, entry.interval)
                    found.append(Agreement(row, column, entry, number, cell, level))
    return found


def agreement_of(cell: Cell, number: Number, interval: Spread | None) -> Level:
    r"""The position of our mean m relative to a published number a ± h.

    ``inside`` if :math:`|m - a| \le h`; ``overlapping`` if :math:`|m - a| \le h + w`, where w is
    our own interval of the same kind (the standard deviation, with h = 0, for a number without an
    interval); ``outside`` otherwise; ``no value`` if we have none.
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
