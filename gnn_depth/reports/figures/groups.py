"""Runs by what a figure tells apart: a panel for each value of some axes, a line for each of others."""

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from gnn_depth.reports.figures.charts import Axis, Line, LinePanel
from gnn_depth.reports.figures.words import counted
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.settings import axes, check_one_experiment, full_name, in_order, labels_of, number, varying
from gnn_depth.reports.table import Labels
from gnn_depth.runs import RESULTS

MAX_PANELS = 24
MAX_LINES = 16
CROWDED = 0.05  # of an axis: values nearer than this get a logarithmic axis, then no tick of their own


@dataclass(frozen=True, eq=False)
class Names:
    """Full names of the axes that tell panels and lines apart."""

    panel: Labels
    line: Labels

    def panel_title(self, values: Labels) -> str:
        """``data=Cora, depth=10``."""
        return ", ".join(f"{last_word(name)}={value}" for name, value in zip(self.panel, values, strict=True))

    @property
    def legend(self) -> str:
        """What the lines' labels are values of."""
        return ", ".join(map(last_word, self.line))


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in their seed alone, and where they are drawn."""

    panel: str
    line: str
    style: int
    runs: pd.DataFrame


def names(
    frame: pd.DataFrame,
    panel: Sequence[str] | None,
    line: Sequence[str] | None,
    used: Collection[str] = (),
) -> Names:
    """Full names of the axes; of the one that is None: all axes whose values differ and that are not used otherwise.

    Raises:
        ReportError: There is no such axis, or one is used twice.
    """
    said = [full_name(frame, word) for word in (*(panel or ()), *(line or ()))]
    if twice := [name for name, count in Counter([*used, *said]).items() if count > 1]:
        raise ReportError(f"axis {twice[0]!r} is used twice: an axis is of the x axis, of the panels or of the lines.")
    rest = tuple(name for name in varying(frame, axes(frame)) if name not in {*used, *said})
    full = tuple(said)
    first = len(panel or ())
    return Names(rest if panel is None else full[:first], rest if line is None else full[first:])


def groups(frame: pd.DataFrame, by: Names, check: bool = True) -> list[Group]:
    """Runs with a result, by panel and line.

    Args:
        frame: Runs, as `load` gives them.
        by: Axes that tell them apart.
        check: Whether runs of one group may differ in nothing but their seed.

    Raises:
        ReportError: Runs of one group differ in more than their seed, none has a result, or panels are too many.
    """
    results = with_result(frame)
    axes_told_apart = (*by.panel, *by.line)
    found = _split(results, axes_told_apart)
    if check:
        check_one_experiment(results, found.values(), axes_told_apart)
    made = []
    styles: dict[Labels, int] = {}
    for values, runs in found.items():
        panel, line = values[: len(by.panel)], values[len(by.panel) :]
        style = styles.setdefault(line, len(styles))
        made.append(Group(by.panel_title(panel), ", ".join(line), style, results.iloc[runs]))
    check_size(len({group.panel for group in made}), len(styles))
    return made


def into_panels(drawn: Iterable[tuple[str, Line]]) -> tuple[LinePanel, ...]:
    """Lines by the titles of their panels, in the order of their first appearance."""
    lines: dict[str, list[Line]] = {}
    for title, line in drawn:
        lines.setdefault(title, []).append(line)
    check_size(len(lines), 0)
    return tuple(LinePanel(title, tuple(inside)) for title, inside in lines.items())


def with_result(frame: pd.DataFrame) -> pd.DataFrame:
    """The runs that finished or diverged.

    Raises:
        ReportError: There is none.
    """
    results = frame[frame["status"].isin(RESULTS)]
    if results.empty:
        raise ReportError(f"no run has a result: {counted(Counter(frame['status']))}.")
    return results


def _split(frame: pd.DataFrame, by: Labels) -> dict[Labels, list[int]]:
    """Positions of the runs that have the same values of some axes."""
    values = labels_of(frame, by)
    found: dict[Labels, list[int]] = {place: [] for place in in_order(values)}
    for run, place in enumerate(values):
        found[place].append(run)
    return found


def check_size(panels: int, lines: int) -> None:
    """Refuse figures that nobody can read.

    Raises:
        ReportError: There are more panels or lines than fit.
    """
    for count, most, what in ((panels, MAX_PANELS, "panels"), (lines, MAX_LINES, "lines")):
        if count > most:
            raise ReportError(f"{count} {what} are more than a figure holds ({most}): choose runs with --where.")


def placed(name: str, values: Sequence[str]) -> tuple[Axis, list[float]]:
    """An axis for the values of a setting, and their places on it: numbers at their values, others side by side.

    Numbers that lie too near to one another for their ticks, such as 2, 4, 8, ..., 128, get a logarithmic axis.
    """
    numbers = [number(value) for value in values]
    places = [value for value in numbers if value is not None]
    if len(places) < len(values):
        ticks = tuple((float(place), value) for place, value in enumerate(values))
        return Axis(last_word(name).replace("_", " "), ticks, categories=True), [tick for tick, _ in ticks]
    log = len(places) > 1 and min(places) > 0 and _nearest(places) < CROWDED
    scaled = [math.log(place) for place in places] if log else places
    ticks = tuple((places[at], values[at]) for at in _apart(scaled))
    return Axis(last_word(name).replace("_", " "), ticks, log=log), places


def _nearest(places: Sequence[float]) -> float:
    """The smallest distance of neighbours, as a part of the whole axis."""
    whole = places[-1] - places[0]
    return min((after - before) / whole for before, after in itertools.pairwise(places))


def _apart(places: Sequence[float]) -> list[int]:
    """Those that are not too near to the last one before them."""
    whole = places[-1] - places[0] or 1.0
    kept: list[int] = []
    for at, place in enumerate(places):
        if not kept or (place - places[kept[-1]]) / whole >= CROWDED:
            kept.append(at)
    return kept


def last_word(name: str) -> str:
    """``num_layers`` of ``model.num_layers``."""
    return name.rpartition(".")[2]
