"""Group runs by panel and line of a figure, place settings on axes, and write captions."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from gnn_depth.reports.figures.charts import Axis, HeatMap, Line, Panel, Points
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import (
    Labels,
    counted,
    full_names,
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
# Share of an axis: values nearer than this get a logarithmic axis, then no tick of their own.
CROWDED = 0.05


@dataclass(frozen=True, eq=False)
class Grouping:
    """Full names of the axes that distinguish panels and lines; a heat map has no lines."""

    panel: Labels
    line: Labels
    has_lines: bool = True

    @property
    def remedy(self) -> str:
        """Advice on how to keep runs apart, without the names of the settings, which follow it."""
        if self.has_lines:
            return f"draw a line for each with {' '.join(['--line', *self.line])}"
        return f"draw a panel for each with {' '.join(['--panel', *self.panel])}"

    def split(self, values: Labels) -> tuple[str, str]:
        """The panel's title, such as ``data=Cora, depth=10``, and the line's label.

        Names of runs stand alone.
        """
        titles = []
        # The values of the panel's axes come first, then those of the line's.
        for name, value in zip(self.panel, values, strict=False):
            titles.append(value if name == "name" else f"{words(name)}={value}")
        return ", ".join(titles), ", ".join(values[len(self.panel) :])

    @property
    def legend(self) -> str:
        """Title of the legend."""
        return ", ".join(map(words, self.line))


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ only in their seed, with their panel and line, and the line's style."""

    panel: str
    line: str
    style: int
    runs: pd.DataFrame


def choose_grouping(
    frame: pd.DataFrame,
    panel: Sequence[str] | None,
    line: Sequence[str] | None,
    used: Collection[str] = (),
    has_lines: bool = True,
) -> Grouping:
    """The grouping by some axes; None stands for all that vary and are not used otherwise."""
    panels = full_names(frame, panel or ())
    lines = full_names(frame, line or ())
    taken = [*used, *panels, *lines]
    for name in taken:
        if taken.count(name) > 1:
            raise ReportError(
                f"axis {name!r} is used twice: use it for the x axis, for panels or for lines."
            )
    # What nobody asked for and yet differs must be told apart, not averaged.
    rest = tuple(name for name in varying_axes(frame) if name not in taken)
    if panel is None:
        panels = rest
    if line is None:
        lines = rest
    return Grouping(panels, lines, has_lines)


def groups(frame: pd.DataFrame, by: Grouping, check: bool = True) -> list[Group]:
    """Runs with a result, by panel and line.

    The check refuses groups whose runs differ in more than their seed.
    """
    remedy = by.remedy if check else None
    found = grouped(with_result(frame), (*by.panel, *by.line), remedy)
    styles: dict[str, int] = {}  # the same line looks the same in all panels
    made = []
    for labels in in_order(found):
        panel, line = by.split(labels)
        style = styles.setdefault(line, len(styles))
        made.append(Group(panel, line, style, found[labels]))
    return made


def into_panels(drawn: Iterable[tuple[str, Line | Points | HeatMap]]) -> tuple[Panel, ...]:
    """Collect titles and what is drawn under them into panels; too many to read are refused."""
    panels: dict[str, Panel] = {}
    labels = set()
    for title, part in drawn:
        panel = panels.get(title, Panel(title))
        if isinstance(part, HeatMap):
            panel = replace(panel, map=part)
        elif isinstance(part, Line):
            panel = replace(panel, lines=(*panel.lines, part))
            labels.add(part.label)
        else:
            panel = replace(panel, points=(*panel.points, part))
            labels.add(part.label)
        panels[title] = panel
    limits = ((len(panels), MAX_PANELS, "panels"), (len(labels), MAX_LINES, "lines"))
    for count, most, what in limits:
        if count > most:
            raise ReportError(
                f"{count} {what} are too many for one figure (at most {most}): choose runs with "
                "--where."
            )
    return tuple(panels.values())


def with_result(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that finished or diverged; an error if there is none."""
    results = frame[frame["status"].isin(RESULTS)]
    if results.empty:
        raise ReportError(f"no run has a result: {counted(frame['status'])}.")
    return results


def placed(name: str, values: Sequence[str]) -> tuple[Axis, list[float]]:
    """An axis for a setting, and the position of each value on it.

    Numbers stand at their values, other values side by side. Numbers too near to one another for
    their ticks, such as 2, 4, 8, ..., 128, get a logarithmic axis.
    """
    places = []
    for value in values:
        place = number(value)
        if place is not None:
            places.append(place)
    if len(places) < len(values):
        places = list(map(float, range(len(values))))
        ticks = tuple(zip(places, values, strict=True))
        return Axis(words(name), ticks, categories=True), places
    whole = places[-1] - places[0] or 1.0  # of a single value
    steps = pd.Series(places).diff().dropna()
    log = min(places) > 0 and bool((steps / whole < CROWDED).any())
    scaled = list(map(math.log, places)) if log else places
    whole = scaled[-1] - scaled[0] or 1.0
    kept: list[int] = []  # places whose tick does not overlap the one before it
    for at, place in enumerate(scaled):
        if not kept or (place - scaled[kept[-1]]) / whole >= CROWDED:
            kept.append(at)
    ticks = tuple((places[at], values[at]) for at in kept)
    return Axis(words(name), ticks, log=log), places


def metric_axis(name: str, log: bool = False) -> Axis:
    """The axis of a metric; for fractions from 0 to 100%, with a margin for the markers."""
    within = (-2.0, 102.0) if is_percent(name) else None
    return Axis(metric_words(name), log=log, within=within)


def scale(name: str) -> float:
    """The factor by which a metric is multiplied to be drawn: fractions are shown in percent."""
    return 100.0 if is_percent(name) else 1.0


def span(counts: Iterable[int]) -> str:
    """``3``, or ``3 to 5``."""
    found = sorted(set(counts)) or [0]
    if len(found) == 1:
        return str(found[0])
    return f"{found[0]} to {found[-1]}"


def count_of(counts: Iterable[int]) -> str:
    """``n = 3 to 5``, kept on one line."""
    return f"n = {span(counts)}".replace(" ", "\N{NO-BREAK SPACE}")


def tally(frame: pd.DataFrame) -> str:
    """Sentences that count the diverged runs and those left out without a result, if any."""
    is_result = frame["status"].isin(RESULTS)
    said = []
    diverged = int((frame["status"] == "diverged").sum())
    if diverged:
        said.append(f"{diverged} of {plural(int(is_result.sum()))} diverged.")
    if not is_result.all():
        said.append(f"Left out: {counted(frame['status'][~is_result])}.")
    return " ".join(said)


def sentences(*parts: str) -> str:
    """The parts that are not empty, separated by spaces."""
    return " ".join(filter(None, parts))
