"""Draw charts for print with Matplotlib's Figure, without pyplot, so that no display or global
state is needed."""

import math
import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, LogFormatter, MaxNLocator

from gnn_depth.measurements import edges
from gnn_depth.reports.figures.charts import (
    Axis,
    Chart,
    HeatMap,
    Line,
    Points,
    areas_and_bars,
    stretches,
    stroke,
)

COLUMN, PAGE, PANEL_HEIGHT = 3.5, 7.2, 2.35  # inches: width of one column and of a two-column page
FONT, SMALL, TITLE = 8.5, 8.0, 9.5
LETTER = 0.56 / 72  # mean width of a letter of DejaVu Sans, in inches for each point of its size
DPI = 200
RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "axes.linewidth": 0.7,
    "axes.grid": False,
    "axes.axisbelow": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "text.parse_math": False,  # a dollar in a label is a dollar
}
ALL_MARKED, MARKS = 12, 8  # lines of more points get markers at some of them only
MAP, MAP_OF_SIGNS = "viridis", "RdBu_r"
UNCOLOURED: dict[str, dict[str, Any]] = {
    "not finite": {
        "facecolor": "#D9D9D9",
        "edgecolor": "#8C8C8C",
        "hatch": "////",
        "linewidth": 0.0,
    },
    "exactly zero": {
        "facecolor": "white",
        "edgecolor": "#8C8C8C",
        "hatch": "....",
        "linewidth": 0.0,
    },
}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEGEND_COLUMNS = 6
GAP = 0.05  # inches between legend and caption


def write_paper(
    chart: Chart, path: Path, title: str = "", size: tuple[float, float] | None = None
) -> None:
    """Draw a chart into a PNG or PDF file."""
    figure = draw(chart, title, size)
    with matplotlib.rc_context(RC):
        figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.03)


def draw(chart: Chart, title: str = "", size: tuple[float, float] | None = None) -> Figure:
    """Draw a chart: panels with shared axes, and the legend and caption below the figure so that
    they hide nothing.

    The size is in inches, without legend and caption; by default that of a journal's column or
    page.
    """
    with matplotlib.rc_context(RC):
        size = size or (COLUMN if chart.columns == 1 else PAGE, chart.rows * PANEL_HEIGHT)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = _axes(figure, chart, size[0] / chart.columns, size[1] / chart.rows)
        legend: dict[str, Artist] = {}
        low, high, diverging = chart.colours
        shade = {"cmap": MAP_OF_SIGNS if diverging else MAP, "vmin": low, "vmax": high}
        coloured: Any = None
        for ax, panel in zip(axes, chart.panels, strict=True):
            if panel.lines:
                ax.grid(axis="y")
            elif panel.points:
                ax.grid()
            for line in panel.lines:
                artist = _draw_line(ax, line, chart.x)
                if line.label:
                    legend.setdefault(line.label, artist)
            for points in panel.points:
                coloured = _draw_points(ax, points, chart, shade, legend)
            if panel.map:
                coloured = _draw_map(ax, panel.map, shade, legend)
        if chart.x.categories:
            axes[0].set_xlim(-0.5, len(chart.x.ticks) - 0.5)
        if chart.y.within and not chart.y.log:  # once everything is drawn
            low, high = axes[0].get_ylim()
            axes[0].set_ylim(max(low, chart.y.within[0]), min(high, chart.y.within[1]))
        if chart.colour:
            label = wrapped(chart.colour.label, size[1] - 0.5, FONT)
            bar = figure.colorbar(coloured, ax=axes, label=label, aspect=25, pad=0.02)
            bar.outline.set_linewidth(0.5)
        _add_text(figure, chart, legend, title)
        return figure


def _axes(figure: Figure, chart: Chart, width: float, height: float) -> list[Axes]:
    """One pair of axes for each panel, with labels on the left and below."""
    every = figure.subplots(
        chart.rows, chart.columns, sharex=True, sharey=True, squeeze=False
    ).ravel()
    for spare in every[len(chart.panels) :]:
        spare.remove()
    for place, (axes, panel) in enumerate(zip(every, chart.panels, strict=False)):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(wrapped(panel.title, width - 0.3, FONT))
        axes.set(
            xscale="log" if chart.x.log else "linear", yscale="log" if chart.y.log else "linear"
        )
        lowest, leftmost = place + chart.columns >= len(chart.panels), place % chart.columns == 0
        axes.tick_params(labelbottom=lowest)
        axes.set_xlabel(chart.x.label if lowest else "")
        axes.set_ylabel(wrapped(chart.y.label, height - 0.5, FONT) if leftmost else "")
        _ticks(axes.xaxis, chart.x, width)
        _ticks(axes.yaxis, chart.y, height)
    return list(every[: len(chart.panels)])


def _ticks(target: Any, axis: Axis, width: float) -> None:
    if axis.ticks:
        places, names = zip(*axis.ticks, strict=True)
        target.set_ticks(places, labels=names)
        target.set_ticks([], minor=True)
        if sum(len(name) + 2 for name in names) * LETTER * SMALL > 0.8 * width:
            for label in target.get_ticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
    elif axis.log:
        target.set_major_formatter(FuncFormatter(power_of_ten))
        target.set_minor_formatter(
            LogFormatter(minor_thresholds=(2, 0.5))
        )  # numbers between, where powers are few
    else:
        target.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=axis.whole))


def power_of_ten(value: float, place: int | None = None) -> str:
    """``10⁻³`` for 0.001, and nothing for other numbers."""
    exponent = round(math.log10(value))
    return "10" + str(exponent).translate(RAISED) if math.isclose(value, 10.0**exponent) else ""


def wrapped(text: str, width: float, size: float) -> str:
    """Text in lines of about a width in inches; words are not broken."""
    return textwrap.fill(text, max(12, int(width / (LETTER * size))), break_long_words=False)


def _draw_line(ax: Axes, line: Line, x: Axis) -> Artist:
    pen, apart, start = stroke(line.style), line.apart(x), line.part == "start"
    for depth, (low, high) in enumerate(line.bands):
        # A light face, darker the further inside, and an edge that shows where bands of several
        # lines overlap.
        face, edge = to_rgba(pen.colour, 0.16 + 0.14 * depth), to_rgba(pen.colour, 0.6)
        areas, bars = areas_and_bars(low, high, apart)
        for part in areas:
            look: dict[str, Any] = {
                "facecolor": face,
                "edgecolor": edge,
                "linewidth": 0.4,
                "zorder": 2,
            }
            ax.fill_between(line.x[part], low[part], high[part], **look)
        if bars:
            middle, half = (low + high)[bars] / 2, (high - low)[bars] / 2
            look = {
                "color": pen.colour,
                "fmt": "none",
                "capsize": 2.5,
                "linewidth": 1.0,
                "zorder": 2,
            }
            ax.errorbar(line.x[bars], middle, yerr=half, **look)
    (artist,) = ax.plot(
        line.x,
        line.y,
        color=pen.colour,
        linestyle="none" if apart else (0, line.dashes) if line.dashes else "solid",
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
    """The points that get a marker: all if there are few, otherwise some, and always isolated
    points."""
    there = np.isfinite(line.y)
    if len(line.y) <= ALL_MARKED:
        return np.flatnonzero(there).tolist()
    step = len(line.y) / MARKS
    # Lines of other styles are marked elsewhere, so that markers of lines that coincide stay
    # visible.
    some = ((np.arange(MARKS) + (line.style % MARKS) / MARKS) * step).astype(int)
    around = np.concatenate([[False], there, [False]])
    alone = np.flatnonzero(there & ~around[:-2] & ~around[2:])
    return sorted({int(place) for place in (*some, *alone) if there[place]})


def _draw_points(
    ax: Axes, points: Points, chart: Chart, shade: dict[str, Any], legend: dict[str, Artist]
) -> Any:
    pen = stroke(points.style)
    look: dict[str, Any] = {
        "s": 26.0,
        "marker": pen.marker,
        "edgecolors": "black",
        "linewidths": 0.5,
        "zorder": 3,
    }
    there = np.isfinite(points.colour) | (chart.colour is None)
    fill: dict[str, Any] = (
        {"c": pen.colour} if chart.colour is None else {"c": points.colour[there], **shade}
    )
    drawn = ax.scatter(points.x[there], points.y[there], **look, **fill)
    if points.label:
        legend.setdefault(points.label, _key(pen.marker, "0.6" if chart.colour else pen.colour))
    if chart.colour and not there.all():
        ax.scatter(points.x[~there], points.y[~there], c="white", **look)
        legend[f"no {chart.colour.label}"] = _key("o", "white")
    return drawn


def _key(marker: str, colour: str) -> Line2D:
    look: dict[str, Any] = {
        "markerfacecolor": colour,
        "markeredgecolor": "black",
        "markeredgewidth": 0.5,
    }
    return Line2D([], [], linestyle="none", marker=marker, **look)


def _draw_map(ax: Axes, map_: HeatMap, shade: dict[str, Any], legend: dict[str, Artist]) -> Any:
    """Draw the values, and hatch those without a colour."""
    x, y = edges(map_.x), edges(map_.y)
    for name, where in map_.uncoloured.items():
        for row in np.flatnonzero(where.any(axis=1)):
            for part in stretches(where[row]):
                corner, width, height = (
                    (x[part.start], y[row]),
                    x[part.stop] - x[part.start],
                    y[row + 1] - y[row],
                )
                ax.add_patch(Rectangle(corner, width, height, zorder=1, **UNCOLOURED[name]))
        legend[name] = Patch(label=name, **UNCOLOURED[name])
    # Thousands of cells would make a PDF slow.
    return ax.pcolormesh(
        x, y, np.ma.masked_invalid(map_.values), rasterized=True, zorder=2, **shade
    )


def _add_text(figure: Figure, chart: Chart, handles: dict[str, Artist], title: str) -> None:
    """The title above the panels; legend and caption below the figure's lower edge."""
    width, height = figure.get_size_inches()
    if title:
        figure.suptitle(wrapped(title, width, TITLE), fontsize=TITLE)
    below = 0.0
    for columns in range(min(len(handles), LEGEND_COLUMNS), 0, -1):  # as many as fit into the width
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            title=chart.legend or None,
            ncols=columns,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            borderaxespad=0.0,
            frameon=False,
            handlelength=3.4 if chart.panels[0].lines else 1.4,
            columnspacing=1.4,
        )
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            below = -legend.get_window_extent().height / figure.bbox.height - GAP / height
            break
        legend.remove()
    caption = wrapped(chart.caption, width, SMALL)
    figure.text(
        0.5, below, caption, ha="center", va="top", size=SMALL, linespacing=1.2, color="0.2"
    )
