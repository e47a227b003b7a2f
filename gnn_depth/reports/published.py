"""Published numbers from YAML files, and their agreement with our means."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import yaml

from gnn_depth.registry import as_written, unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import Labels, is_percent, resolve_name, same, scale
from gnn_depth.reports.table import Cell, ResultTable, Spread
from gnn_depth.yaml_limits import safe_load

NEEDED = {"source": str, "over": str, "values": dict}
KEYS = NEEDED | {"interval": str, "runs": int, "where": dict}
INTERVALS: dict[str, Spread | None] = {"none": None, "std": "std", "ci": "ci"}
NUMBER = re.compile(
    r"\s*(-?\d+(?:\.\d*)?(?:e-?\d+)?)\s*(?:(?:\+-|\+/-|±)\s*(\d+(?:\.\d*)?(?:e-?\d+)?))?\s*"
)
ROUNDING = 1e-9  # 0.821 is not quite 82.1 / 100
TOO_WIDE = 0.15  # an interval of 15 points on either side decides nothing of an accuracy

Level: TypeAlias = Literal["inside", "overlapping", "outside", "undecided", "no value"]


class PublishedNumber(NamedTuple):
    """A published mean and the number after its ±, if it has one; accuracies are fractions."""

    mean: float
    half: float | None = None
    #: How far the numbers behind the printed ones may lie from them: half a unit of the last digit
    #: of the mean, and of the number after ±.
    rounding: float = 0.0


@dataclass(frozen=True)
class Published:
    """A number from a table of a paper."""

    source: str  # the citation
    interval: Spread | None  # what stands after ±; None where the paper gives no interval
    runs: int | None  # behind the mean; None where the paper does not say
    where: Mapping[str, str]  # axis -> label; the numbers of an entry vary along the last axis
    number: PublishedNumber


@dataclass(frozen=True)
class Agreement:
    """Our mean compared with a published one."""

    labels: Labels  # of the cell
    published: Published
    cell: Cell
    level: Level


def read_published(path: str | Path, metric: str) -> list[Published]:
    """Read the published numbers of a YAML file, which are values of a metric."""
    try:
        content = safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{str(path)!r} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ReportError(f"{str(path)!r} is not YAML: {' '.join(str(error).split())}.") from error
    return parse_published(content, str(path), metric)


def parse_published(
    entries: object, origin: str = "published", metric: str = "acc"
) -> list[Published]:
    """The published numbers of a parsed YAML file, or those below its key ``published``.

    Args:
        entries: What the file holds.
        origin: Its name in errors.
        metric: What the numbers are values of; those of an accuracy are percentages.
    """
    if isinstance(entries, dict):
        entries = entries.get("published")
    if not isinstance(entries, list):
        raise ReportError(f"{origin}: published numbers must be a list of entries.")
    found: list[Published] = []
    for place, entry in enumerate(entries, start=1):
        facts = entry if isinstance(entry, dict) else {}
        try:
            found += _entry(facts, metric)
        except ReportError as error:
            source = facts.get("source")
            raise ReportError(f"{origin}, entry {place} ({source}): {error}") from error
    return found


def _entry(entry: dict[str, Any], metric: str) -> Iterator[Published]:
    for key in NEEDED:
        if entry.get(key) is None:
            raise ReportError(f"the key {key!r} is missing.")
    for key, value in entry.items():
        # An unknown key may be a misspelt one, without which the numbers mean something else.
        if key not in KEYS:
            raise ReportError(unknown("key", str(key), KEYS))
        # A bool is an int.
        if value is not None and (not isinstance(value, KEYS[key]) or isinstance(value, bool)):
            raise ReportError(f"{key!r} must be a {KEYS[key].__name__}, not {value!r}.")
    interval = entry.get("interval") or "none"
    if interval not in INTERVALS:
        raise ReportError(unknown("interval", interval, INTERVALS))
    runs = entry.get("runs")
    if runs is not None and runs < 1:
        raise ReportError(f"'runs' must be the number of runs behind a mean, not {runs!r}.")
    shown = scale(metric)
    # A number without quotes has lost the zeros at its end, so the others say how many digits were
    # printed.
    floats = [value for value in entry["values"].values() if isinstance(value, float)]
    finest = min((_rounding(str(value)) for value in floats), default=1.0)
    where = {str(axis): as_written(label) for axis, label in (entry.get("where") or {}).items()}
    for key, value in entry["values"].items():
        match = NUMBER.fullmatch(str(value))
        if match is None:
            raise ReportError(
                f"value of {key} must be a number, or a text such as '78.0 +- 1.2', not {value!r}."
            )
        mean, half = match.groups()
        if half is not None and interval == "none":
            raise ReportError(
                f"value of {key}: {value!r} has a +-, so give its meaning: interval: std or "
                "interval: ci."
            )
        width = None
        rounding = finest if isinstance(value, float) else _rounding(mean)
        # The edge of an interval is off by what both printed numbers have lost.
        if half is not None:
            width = float(half) / shown
            rounding += _rounding(half)
        number = PublishedNumber(float(mean) / shown, width, rounding / shown)
        here = where | {entry["over"]: as_written(key)}
        yield Published(entry["source"], INTERVALS[interval], runs, here, number)


def _rounding(text: str) -> float:
    """Half a unit of the last digit of a number as it is printed: 0.05 for 82.1."""
    digits, _, exponent = text.partition("e")
    decimals = len(digits.partition(".")[2])
    return 0.5 * 10.0 ** (int(exponent or 0) - decimals)


def compare_published(table: ResultTable, published: Sequence[Published]) -> list[Agreement]:
    """Compare every cell with the numbers that one or several sources have published for it."""
    ours = [cell.settings for cell in table.cells.values() if cell.settings]
    named = list(dict.fromkeys([*table.names, *table.runs.attrs["axes"]]))
    known = list(dict.fromkeys(chain(named, *ours)))
    # What all cells share also describes a cell without runs.
    shared = dict(set.intersection(*(set(settings.items()) for settings in ours or [{}])))
    resolved = []
    for entry in published:
        # Before any cell: a name that is misspelt must not pass for one that matches nothing.
        where = {resolve_name(axis, named, known): text for axis, text in entry.where.items()}
        resolved.append((entry, where))
    widest = TOO_WIDE if is_percent(table.metric) else math.inf
    found = []
    for labels, cell in table.cells.items():
        here = shared | cell.settings | dict(zip(table.names, labels, strict=True))
        for entry, where in resolved:
            if all(same(here.get(name, ""), text) for name, text in where.items()):
                level = agreement_of(cell, entry.number, entry.interval, entry.runs, widest)
                found.append(Agreement(labels, entry, cell, level))
    return found


def agreement_of(
    cell: Cell,
    number: PublishedNumber,
    interval: Spread | None,
    runs: int | None = None,
    widest: float = TOO_WIDE,
) -> Level:
    r"""The position of our mean m of k runs relative to a published number a ± h.

    ``inside`` if :math:`|m - a| \le h`; ``overlapping`` if :math:`|m - a| \le h + w`, where w is
    our own interval of the same kind (the standard deviation for a number without an interval);
    ``outside`` otherwise; ``no value`` if we have none. Three things make this fair:

    - The 95% confidence interval of a mean of ``runs`` runs is narrower than that of a mean of
      fewer, so h is multiplied by :math:`\sqrt{runs / k}` for k < ``runs``: a single run is
      compared with the interval of a single run. A standard deviation is that of one run already.
    - What printing may have rounded away belongs to h, which is 0 for a number without an interval.
    - ``undecided``: h, or the w that is needed, is more than ``widest``, 15 points of an accuracy,
      so that almost any number would agree; or neither side has an interval.
    """
    distance = abs(cell.mean - number.mean) - ROUNDING
    if math.isnan(distance):
        return "no value"
    half = number.half or 0.0
    # First widened to our number of runs, then judged, then given what printing rounded away.
    if interval == "ci" and runs is not None and cell.n < runs:
        half *= math.sqrt(runs / cell.n)
    if half > widest:
        return "undecided"
    half += number.rounding
    if distance <= half:
        return "inside"
    width = cell.half_width(interval or "std")
    if width is None:  # of a single run
        return "undecided" if number.half is None else "outside"
    if distance > half + width:
        return "outside"
    return "undecided" if width > widest else "overlapping"
