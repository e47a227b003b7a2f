"""Lines with bands, drawn with Matplotlib."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from gnn_depth.reports.figures.charts import Line, Lines
from gnn_depth.reports.figures.style import Stroke, line_dashes, stroke

ALL_MARKED = 12  # lines of more points get markers at some of them
MARKS = 8


def draw_lines(axes: list[Axes], chart: Lines) -> dict[str, Artist]:
    """Draw every panel; returns what the legend shows, by its label."""
    handles: dict[str, Artist] = {}
    for ax, panel in zip(axes, chart.panels, strict=True):
        ax.grid(axis="y", color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        for line in panel.lines:
            apart = chart.x.categories or line.part == "published"
            _bands(ax, line, apart)
            artist = _line(ax, line, apart)
            if line.label:
                handles.setdefault(line.label, artist)
        if chart.x.categories:
            ax.set_xlim(-0.5, len(chart.x.ticks) - 0.5)
    return handles


def _line(ax: Axes, line: Line, apart: bool) -> Artist:
    pen = stroke(line.style)
    start = line.part == "start"
    dashes = line_dashes(line.part, pen)
    (artist,) = ax.plot(
        line.x,
        line.y,
        color=pen.colour,
        linestyle="none" if apart else (0, dashes) if dashes else "solid",
        linewidth=1.0 if start else None,
        marker=pen.marker,
        markevery=marked(line),
        markerfacecolor="white" if start or line.part == "published" else pen.colour,
        markeredgewidth=0.8,
        label=line.label,
        zorder=3,
    )
    return artist


def marked(line: Line) -> list[int]:
    """The points that get a marker: all of few, some of many, and always those that no neighbour connects."""
    there = np.isfinite(line.y)
    if len(line.y) <= ALL_MARKED:
        return np.flatnonzero(there).tolist()
    step = len(line.y) / MARKS
    # Lines of other styles are marked elsewhere, so that markers of lines that lie on one another stay visible.
    some = ((np.arange(MARKS) + (line.style % MARKS) / MARKS) * step).astype(int)
    around = np.concatenate([[False], there, [False]])
    alone = np.flatnonzero(there & ~around[:-2] & ~around[2:])
    return sorted({int(place) for place in (*some, *alone) if there[place]})


def _bands(ax: Axes, line: Line, apart: bool) -> None:
    pen = stroke(line.style)
    for depth, band in enumerate(line.bands):
        for part in band.stretches(apart):
            x, low, high = line.x[part], band.low[part], band.high[part]
            if len(x) == 1:
                _bar(ax, pen, float(x[0]), float(low[0]), float(high[0]))
            else:
                ax.fill_between(x, low, high, zorder=2, **_fill(pen, depth))


def _fill(pen: Stroke, depth: int) -> dict[str, Any]:
    """A light face, darker the further inside, and an edge that shows where bands of several lines overlap."""
    return {
        "facecolor": to_rgba(pen.colour, 0.16 + 0.14 * depth),
        "edgecolor": to_rgba(pen.colour, 0.6),
        "linewidth": 0.4,
    }


def _bar(ax: Axes, pen: Stroke, x: float, low: float, high: float) -> None:
    middle = (low + high) / 2
    ax.errorbar(x, middle, yerr=high - middle, color=pen.colour, fmt="none", capsize=2.5, linewidth=1.0, zorder=2)
