"""Group runs by panel and line of a figure, place settings on axes, and write captions."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from gnn_depth.reports.figures.charts import Axis, HeatMap, Line, Panel, Points
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import (
    Labels,
    counted,
    full_name,
    grouped,
    in_order,
    is_percent,
    metric_words,
    number,
    plural,
    varying_axes,
    words,
)
from gnn_depth.runs import RESULTS

MAX_PANELS, MAX_LINES = 24, 16  # of a figure that can be read
CROWDED = (
    0.05  # of an axis: values nearer than this get a logarithmic axis, then no tick of their own
)
LISTED = 10  # folders in a hover text


@dataclass(frozen=True, eq=False)
class Names:
    """Full names of the axes that distinguish panels and lines; a heat map has no lines."""

    panel: Labels
    line: Labels
    has_lines: bool = True

    @property
    def remedy(self) -> str:
        """Advice on how to keep runs apart, without the names of the settings, which follow it."""
        what, used = ("line", self.line) if self.has_lines else ("panel", self.panel)
        return f"draw a {what} for each with {' '.join([f'--{what}', *used])}"

    def split(self, values: Labels) -> tuple[str, str]:
        """The panel's title, such as ``data=Cora, depth=10``, and the line's label; names of runs
        stand alone."""
        titles = zip(self.panel, values, strict=False)
        title = ", ".join(
            value if name == "name" else f"{words(name)}={value}" for name, value in titles
        )
        return title, ", ".join(values[len(self.panel) :])

    @property
    def legend(self) -> str:
        """Title of the legend."""
        return ", ".join(map(words, self.line))


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed, with their panel and line, and the style of the line."""

    panel: str
    line: str
    style: int
    runs: pd.DataFrame


def names(
    frame: pd.DataFrame,
    panel: Sequence[str] | None,
    line: Sequence[str] | None,
    used: Collection[str] = (),
    has_lines: bool = True,
) -> Names:
    """Full names of the axes; where one is None, all axes or options that vary and are not used
    otherwise."""
    given = tuple(full_name(frame, word) for word in (*(panel or ()), *(line or ())))
    if twice := [name for name, count in Counter([*used, *given]).items() if count > 1]:
        raise ReportError(
            f"axis {twice[0]!r} is used twice: use it for the x axis, for panels or for lines."
        )
    rest = tuple(name for name in varying_axes(frame) if name not in {*used, *given})
    first = len(panel or ())
    return Names(
        rest if panel is None else given[:first], rest if line is None else given[first:], has_lines
    )


def groups(frame: pd.DataFrame, by: Names, check: bool = True) -> list[Group]:
    """Runs with a result, by panel and line; with a check that those of one group differ in nothing
    but their seed."""
    found = grouped(with_result(frame), (*by.panel, *by.line), by.remedy if check else None)
    styles: dict[str, int] = {}
    made = []
    for labels in in_order(found):
        panel, line = by.split(labels)
        made.append(Group(panel, line, styles.setdefault(line, len(styles)), found[labels]))
    return made


def into_panels(drawn: Iterable[tuple[str, Line | Points | HeatMap]]) -> tuple[Panel, ...]:
    """Collect what is drawn into panels by title, in order of first appearance; refuse more than
    one can read."""
    inside: dict[str, list[Line | Points | HeatMap]] = {}
    for title, part in drawn:
        inside.setdefault(title, []).append(part)
    lines = {
        part.label for parts in inside.values() for part in parts if not isinstance(part, HeatMap)
    }
    for count, most, what in (
        (len(inside), MAX_PANELS, "panels"),
        (len(lines), MAX_LINES, "lines"),
    ):
        if count > most:
            raise ReportError(
                f"{count} {what} are too many for one figure (at most {most}): choose runs with "
                "--where."
            )
    return tuple(
        Panel(
            title,
            tuple(part for part in parts if isinstance(part, Line)),
            tuple(part for part in parts if isinstance(part, Points)),
            next((part for part in parts if isinstance(part, HeatMap)), None),
        )
        for title, parts in inside.items()
    )


def with_result(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that finished or diverged; an error if there is none."""
    results = frame[frame["status"].isin(RESULTS)]
    if results.empty:
        raise ReportError(f"no run has a result: {counted(frame['status'])}.")
    return results


def placed(name: str, values: Sequence[str]) -> tuple[Axis, list[float]]:
    """An axis for a setting, and the positions on it: numbers at their values, other values side by
    side.

    Numbers too near to one another for their ticks, such as 2, 4, 8, ..., 128, get a logarithmic
    axis.
    """
    places = [place for value in values if (place := number(value)) is not None]
    if len(places) < len(values):
        ticks = tuple((float(place), value) for place, value in enumerate(values))
        return Axis(words(name), ticks, categories=True), [tick for tick, _ in ticks]
    whole = places[-1] - places[0] or 1.0
    nearest = min((after - before for before, after in itertools.pairwise(places)), default=whole)
    log = min(places) > 0 and nearest / whole < CROWDED
    scaled = [math.log(place) for place in places] if log else places
    whole = scaled[-1] - scaled[0] or 1.0
    kept: list[int] = []
    for at, place in enumerate(scaled):
        if not kept or (place - scaled[kept[-1]]) / whole >= CROWDED:
            kept.append(at)
    return Axis(words(name), tuple((places[at], values[at]) for at in kept), log=log), places


def metric_axis(name: str, log: bool = False) -> Axis:
    """The axis of a metric; for fractions from 0 to 100%, with a margin for the markers."""
    return Axis(metric_words(name), log=log, within=(-2.0, 102.0) if is_percent(name) else None)


def scale(name: str) -> float:
    """The factor by which a metric is multiplied to be drawn: fractions are shown in percent."""
    return 100.0 if is_percent(name) else 1.0


def span(counts: Iterable[int]) -> str:
    """``3``, or ``3 to 5``."""
    found = sorted(set(counts)) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def count_of(counts: Iterable[int]) -> str:
    """``n = 3 to 5``, kept on one line."""
    return f"n = {span(counts)}".replace(" ", "\N{NO-BREAK SPACE}")


def tally(frame: pd.DataFrame) -> str:
    """Sentences with the numbers of diverged runs and of runs left out because they have no result,
    if any."""
    results = frame["status"].isin(RESULTS)
    diverged = int((frame["status"] == "diverged").sum())
    out = counted(frame["status"][~results])
    return sentences(
        f"{diverged} of {plural(int(results.sum()))} diverged." if diverged else "",
        f"Left out: {out}." if out else "",
    )


def folder_list(folders: Iterable[str]) -> str:
    """Folders, one per line, and the number of further ones."""
    known = list(folders)
    more = [f"and {len(known) - LISTED} more"] if len(known) > LISTED else []
    return "\n".join([*known[:LISTED], *more])


def sentences(*parts: str) -> str:
    """The parts that are not empty, separated by spaces."""
    return " ".join(filter(None, parts))
