"""Draw charts with Matplotlib's Figure, without pyplot: no display or global state is needed."""

import html
import math
import textwrap
from dataclasses import replace
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
from gnn_depth.reports.figures.charts import Axis, Chart, HeatMap, Line, Points, stroke
from gnn_depth.web_page import svg, web_page

COLUMN, PAGE, PANEL_HEIGHT = 3.5, 7.2, 2.35  # inches: width of one column and of a two-column page
FONT, SMALL, TITLE = 8.5, 8.0, 9.5
LETTER = 0.56 / 72  # mean width of a letter of DejaVu Sans, in inches for each point of its size
DPI = 200
ON_A_PAGE = 1.6  # how much larger a web page shows a figure than paper
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
    "svg.fonttype": "path",  # looks the same where the font is missing
    "svg.hashsalt": "gnn-depth",  # the same chart gives the same file
    "text.parse_math": False,  # a dollar in a label is a dollar
}
ALL_MARKED, MARKS = 12, 8  # lines of more points get markers at some of them only
HATCHES = {"not finite": ("#D9D9D9", "////"), "exactly zero": ("white", "....")}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEGEND_COLUMNS = 6
GAP = 0.05  # inches between legend and caption
Size = tuple[float, float]  # width and height in inches


def write_figure(chart: Chart, path: Path, title: str = "", size: Size | None = None) -> None:
    """Draw a chart into a PNG or PDF file, or as SVG into a web page that needs no other file."""
    if path.suffix == ".html":
        path.write_text(_page(chart, title, size), encoding="utf-8")
        return
    figure = draw_chart(chart, title, size)
    with matplotlib.rc_context(RC):
        figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.03)


def _page(chart: Chart, title: str, size: Size | None) -> str:
    """A page with the title as its heading and the caption as text below the picture."""
    if not title:
        title = chart.y.label
        if chart.colour and chart.panels[0].map:
            title = chart.colour.label
        if chart.panels[0].points:
            title = f"{chart.y.label}, and {chart.x.label}"
    figure = draw_chart(replace(chart, caption=""), "", size)
    with matplotlib.rc_context(RC):
        picture = svg(figure, bbox_inches="tight", pad_inches=0.03)
    width = ON_A_PAGE * figure.get_size_inches()[0]
    body = (
        f'<div style="max-width: {width:.2f}in">{picture}</div>\n'
        f"<p>{html.escape(chart.caption)}</p>"
    )
    return web_page(title, body)


def draw_chart(chart: Chart, title: str = "", size: Size | None = None) -> Figure:
    """Draw panels with shared axes; legend and caption lie below so that they hide nothing.

    The size is without legend and caption; by default that of a journal's column or page.
    """
    with matplotlib.rc_context(RC):
        if size is None:
            width = COLUMN if chart.columns == 1 else PAGE
            size = (width, chart.rows * PANEL_HEIGHT)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)  # which measures text, for legends that fit
        axes = _axes(figure, chart, size[0] / chart.columns, size[1] / chart.rows)
        legend: dict[str, Artist] = {}
        colours = chart.colours
        shade = {"cmap": colours.name, "vmin": colours.low, "vmax": colours.high}
        coloured: Any = None
        for ax, panel in zip(axes, chart.panels, strict=True):
            if panel.lines:
                ax.grid(axis="y")
            elif panel.points:  # whose places on both axes are read
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
    grid = figure.subplots(chart.rows, chart.columns, sharex=True, sharey=True, squeeze=False)
    every = list(grid.ravel())
    for spare in every[len(chart.panels) :]:
        spare.remove()
    used = every[: len(chart.panels)]
    for place, (axes, panel) in enumerate(zip(used, chart.panels, strict=True)):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(wrapped(panel.title, width - 0.3, FONT))
        if chart.x.log:
            axes.set_xscale("log")
        if chart.y.log:
            axes.set_yscale("log")
        # Nothing is below it, also where the last row is not full.
        lowest = place + chart.columns >= len(chart.panels)
        axes.tick_params(labelbottom=lowest)
        if lowest:
            axes.set_xlabel(chart.x.label)
        if place % chart.columns == 0:
            axes.set_ylabel(wrapped(chart.y.label, height - 0.5, FONT))
        _ticks(axes.xaxis, chart.x, width)
        _ticks(axes.yaxis, chart.y, height)
    return used


def _ticks(target: Any, axis: Axis, width: float) -> None:
    if axis.ticks:
        places, names = zip(*axis.ticks, strict=True)
        target.set_ticks(places, labels=names)
        target.set_ticks([], minor=True)
        letters = len("".join(names)) + 2 * len(names)
        if letters * LETTER * SMALL > 0.8 * width:  # they would run into each other
            for label in target.get_ticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
    elif axis.log:
        target.set_major_formatter(FuncFormatter(power_of_ten))
        # Numbers between, where powers are few.
        target.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.5)))
    else:
        target.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=axis.whole))


def power_of_ten(value: float, place: int | None = None) -> str:
    """``10⁻³`` for 0.001, and nothing for other numbers."""
    exponent = round(math.log10(value))
    if not math.isclose(value, 10.0**exponent):
        return ""
    return "10" + str(exponent).translate(RAISED)


def wrapped(text: str, width: float, size: float) -> str:
    """Text in lines of about a width in inches; words are not broken."""
    return textwrap.fill(text, max(12, int(width / (LETTER * size))), break_long_words=False)


def _draw_line(ax: Axes, line: Line, x: Axis) -> Artist:
    pen = stroke(line.style)
    apart = line.apart(x)
    for depth, (low, high) in enumerate(line.bands):
        # A light face, darker the further inside, and an edge that shows where bands of several
        # lines overlap.
        face, edge = to_rgba(pen.colour, 0.16 + 0.14 * depth), to_rgba(pen.colour, 0.6)
        areas, bars = areas_and_bars(low, high, apart)
        for part in areas:
            ax.fill_between(
                line.x[part],
                low[part],
                high[part],
                facecolor=face,
                edgecolor=edge,
                linewidth=0.4,
                zorder=2,
            )
        if bars:
            ax.errorbar(
                line.x[bars],
                (low + high)[bars] / 2,
                yerr=(high - low)[bars] / 2,
                color=pen.colour,
                fmt="none",
                capsize=2.5,
                linewidth=1.0,
                zorder=2,
            )
    linestyle: Any = "solid"
    if apart:
        linestyle = "none"
    elif line.dashes:
        linestyle = (0, line.dashes)
    look: dict[str, Any] = {"color": pen.colour, "linestyle": linestyle}
    if line.part == "start":
        look["linewidth"] = 1.0
    if line.part in ("start", "published"):  # open markers
        look["markerfacecolor"] = "white"
    (artist,) = ax.plot(
        line.x,
        line.y,
        marker=pen.marker,
        markevery=marked(line),
        markeredgewidth=0.8,
        label=line.label,
        zorder=3,
        **look,
    )
    return artist


def stretches(there: np.ndarray) -> list[slice]:
    """The stretches of consecutive places where a mask is true."""
    found: list[slice] = np.ma.clump_unmasked(np.ma.array(there, mask=~there))  # type: ignore[no-untyped-call]
    return found


def areas_and_bars(low: np.ndarray, high: np.ndarray, apart: bool) -> tuple[list[slice], list[int]]:
    """The stretches of a band drawn as areas, and the points drawn as error bars.

    Points that nothing connects, as all are if they stand apart, get bars.
    """
    areas: list[slice] = []
    bars: list[int] = []
    for part in stretches(np.isfinite(low) & np.isfinite(high)):
        if part.stop - part.start > 1 and not apart:
            areas.append(part)
        else:
            bars += range(part.start, part.stop)
    return areas, bars


def marked(line: Line) -> list[int]:
    """The points that get a marker: all if they are few, otherwise some and all isolated ones."""
    there = np.isfinite(line.y)
    if len(line.y) <= ALL_MARKED:
        return np.flatnonzero(there).tolist()
    # Lines of other styles are marked elsewhere, so that markers of lines that coincide stay
    # visible.
    shift = (line.style % MARKS) / MARKS
    some = ((np.arange(MARKS) + shift) * len(line.y) / MARKS).astype(int)
    before = np.concatenate([[False], there[:-1]])
    after = np.concatenate([there[1:], [False]])
    chosen = there & ~before & ~after
    chosen[some] = there[some]
    return np.flatnonzero(chosen).tolist()


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
    if chart.colour is None:
        if points.label:
            legend.setdefault(points.label, _key(pen.marker, pen.colour))
        return ax.scatter(points.x, points.y, c=pen.colour, **look)
    # Matplotlib would leave out points whose colour is NaN.
    there = np.isfinite(points.colour)
    colours = points.colour[there]
    drawn = ax.scatter(points.x[there], points.y[there], c=colours, **look, **shade)
    if points.label:
        legend.setdefault(points.label, _key(pen.marker, "0.6"))
    if not there.all():
        ax.scatter(points.x[~there], points.y[~there], c="white", **look)
        legend[f"no {chart.colour.label}"] = _key("o", "white")
    return drawn


def _key(marker: str, colour: str) -> Line2D:
    """A marker in the legend."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=marker,
        markerfacecolor=colour,
        markeredgecolor="black",
        markeredgewidth=0.5,
    )


def _draw_map(ax: Axes, map_: HeatMap, shade: dict[str, Any], legend: dict[str, Artist]) -> Any:
    """Draw the values, and hatch those without a colour."""
    x, y = edges(map_.x), edges(map_.y)
    for name, where in map_.uncoloured.items():
        face, hatch = HATCHES[name]
        look: dict[str, Any] = {
            "facecolor": face,
            "edgecolor": "#8C8C8C",
            "hatch": hatch,
            "linewidth": 0.0,
        }
        for row in np.flatnonzero(where.any(axis=1)):
            height = y[row + 1] - y[row]
            for part in stretches(where[row]):
                width = x[part.stop] - x[part.start]
                ax.add_patch(Rectangle((x[part.start], y[row]), width, height, zorder=1, **look))
        legend[name] = Patch(label=name, **look)
    values = np.ma.masked_invalid(map_.values)
    # Thousands of cells would make a PDF slow.
    return ax.pcolormesh(x, y, values, rasterized=True, zorder=2, **shade)


def _add_text(figure: Figure, chart: Chart, handles: dict[str, Artist], title: str) -> None:
    """The title above the panels; legend and caption below the figure's lower edge."""
    width, height = figure.get_size_inches()
    if title:
        figure.suptitle(wrapped(title, width, TITLE), fontsize=TITLE)
    below = 0.0
    length = 3.4 if chart.panels[0].lines else 1.4  # enough of a line to tell its dashes
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
            handlelength=length,
            columnspacing=1.4,
        )
        extent = legend.get_window_extent()
        if columns == 1 or extent.width <= figure.bbox.width:
            below = -extent.height / figure.bbox.height - GAP / height
            break
        legend.remove()
    caption = wrapped(chart.caption, width, SMALL)
    figure.text(
        0.5, below, caption, ha="center", va="top", size=SMALL, linespacing=1.2, color="0.2"
    )
