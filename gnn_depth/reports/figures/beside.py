"""Numbers of papers as open markers beside the lines that they are of."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gnn_depth.reports.figures.charts import Band, Line, LinePanel
from gnn_depth.reports.figures.groups import Names
from gnn_depth.reports.figures.style import COLOURS
from gnn_depth.reports.published import Agreement
from gnn_depth.reports.table import Labels


def beside(
    panels: Sequence[LinePanel], verdicts: Sequence[Agreement], by: Names, places: Mapping[Labels, float], scale: float
) -> tuple[LinePanel, ...]:
    """The panels with the published numbers that their lines have, a line without strokes for each source.

    Args:
        panels: Our lines.
        verdicts: Published numbers, by the row and column of the table that the lines are of.
        by: Axes that tell panels and lines apart: the table's columns.
        places: Where each row lies on the x axis.
        scale: From the numbers' unit to that of the y axis.
    """
    # The colour of the line and a marker of the source.
    sources = list(dict.fromkeys(verdict.published.source for verdict in verdicts))
    found: dict[tuple[str, str, str], list[Agreement]] = {}
    for verdict in verdicts:
        panel, line = verdict.column[: len(by.panel)], verdict.column[len(by.panel) :]
        found.setdefault((by.panel_title(panel), ", ".join(line), verdict.published.source), []).append(verdict)
    more: dict[str, list[Line]] = {}
    for (title, label, source), numbers in found.items():
        (ours,) = (line for panel in panels for line in panel.lines if (panel.title, line.label) == (title, label))
        more.setdefault(title, []).append(_line(ours, source, numbers, places, scale, sources.index(source)))
    return tuple(replace(panel, lines=(*panel.lines, *more.get(panel.title, ()))) for panel in panels)


def _line(
    ours: Line, source: str, numbers: Sequence[Agreement], places: Mapping[Labels, float], scale: float, place: int
) -> Line:
    numbers = sorted(numbers, key=lambda verdict: places[verdict.row])
    x = np.array([places[verdict.row] for verdict in numbers])
    mean = scale * np.array([verdict.number.mean for verdict in numbers])
    half = scale * np.array([np.nan if verdict.number.half is None else verdict.number.half for verdict in numbers])
    notes = tuple(f"{source}\n{value:.4g}" for value in mean)
    bands = (Band(mean - half, mean + half),) if np.isfinite(half).any() else ()
    return Line(_name(ours.label, source), x, mean, bands, ours.style + len(COLOURS) * (1 + place), "published", notes)


def _name(label: str, source: str) -> str:
    """A name for the legend; the whole source stands in the table."""
    return f"{label}, {source.split(',')[0]}" if label else source.split(",")[0]
