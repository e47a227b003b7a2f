"""Numbers of papers, as files say them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gnn_depth.registry import unknown
from gnn_depth.reports.cells import Spread
from gnn_depth.reports.errors import ReportError
from gnn_depth.reports.settings import label

KEYS = ("source", "interval", "unit", "where", "over", "values")
INTERVALS = ("none", "std", "ci")
UNITS = {"percent": 100.0, "fraction": 1.0}
NUMBER = re.compile(r"\s*(-?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?:(?:\+-|\+/-|±)\s*(\d+(?:\.\d*)?(?:e-?\d+)?))?\s*")


@dataclass(frozen=True)
class Number:
    """A number of a paper, in the unit of our metrics: accuracies are fractions.

    Attributes:
        mean: The number.
        half: What stands behind its +-, if anything does.
    """

    mean: float
    half: float | None = None


@dataclass(frozen=True)
class Published:
    """Numbers of one table of a paper.

    Attributes:
        source: The citation.
        interval: What its +- means; None where it has none.
        where: Axis -> label, of the axes that are fixed.
        over: Axis that the numbers run over.
        numbers: Its label -> number.
    """

    source: str
    interval: Spread | None
    where: Mapping[str, str]
    over: str
    numbers: Mapping[str, Number]


def read(path: str | Path) -> list[Published]:
    """The published numbers of a YAML file.

    Raises:
        ReportError: The file cannot be read, or an entry of it is not understood.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReportError(f"{str(path)!r} is no YAML: {' '.join(str(error).split())}.") from error
    return parse(content, str(path))


def parse(entries: Any, origin: str = "published") -> list[Published]:
    """The published numbers of a file, or of the key ``published`` of one.

    Args:
        entries: What YAML made of it: a list of entries with ``source``, ``interval``, ``unit``, ``where``, ``over``,
            ``values``.
        origin: The file's name, for errors.

    Raises:
        ReportError: An entry is not understood; it is named.
    """
    if isinstance(entries, dict) and "published" in entries:
        entries = entries["published"]
    if not isinstance(entries, list):
        raise ReportError(f"{origin}: published numbers are a list of entries, not {entries!r}.")
    return [_entry(entry, f"{origin}, entry {place}") for place, entry in enumerate(entries, start=1)]


def _entry(entry: Any, name: str) -> Published:
    if not isinstance(entry, dict):
        raise ReportError(f"{name} is made of keys with values, not of {entry!r}.")
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
            raise ReportError(f"{name}: {key} is made of keys with values, not of {value!r}.")
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
        raise ReportError(f"{name}: a number, or a text such as '78.0 +- 1.2', not {value!r}.")
    mean, half = match[1], match[2]
    if half is not None and interval == "none":
        raise ReportError(f"{name}: {value!r} has a +-, and interval: none does not say what it means (std or ci).")
    return Number(float(mean) / unit, None if half is None else float(half) / unit)
