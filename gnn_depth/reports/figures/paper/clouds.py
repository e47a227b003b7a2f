"""Scattered points coloured by a value, drawn with Matplotlib."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gnn_depth.reports.figures import style
from gnn_depth.reports.figures.charts import Axis, Clouds, colour_range
from gnn_depth.reports.figures.paper.axes import upright

SIZE = 26.0
LOOK: dict[str, Any] = {"edgecolors": "black", "linewidths": 0.5, "zorder": 3}


def draw_clouds(figure: Figure, axes: list[Axes], chart: Clouds) -> dict[str, Artist]:
    """Draw every panel and one colour bar; returns what the legend shows, by its label."""
    for ax in axes:
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
    return _plain(axes, chart) if chart.colour is None else _coloured(figure, axes, chart, chart.colour)


def _plain(axes: list[Axes], chart: Clouds) -> dict[str, Artist]:
    handles: dict[str, Artist] = {}
    for ax, panel in zip(axes, chart.panels, strict=True):
        for cloud in panel.clouds:
            pen = style.stroke(cloud.style)
            ax.scatter(cloud.x, cloud.y, SIZE, pen.colour, **{**LOOK, "marker": pen.marker})
            if cloud.label:
                handles.setdefault(cloud.label, _key(pen.marker, pen.colour))
    return handles


def _coloured(figure: Figure, axes: list[Axes], chart: Clouds, colour: Axis) -> dict[str, Artist]:
    low, high = colour_range([cloud.colour for panel in chart.panels for cloud in panel.clouds])
    handles: dict[str, Artist] = {}
    for ax, panel in zip(axes, chart.panels, strict=True):
        for cloud in panel.clouds:
            marker = style.stroke(cloud.style).marker
            there = np.isfinite(cloud.colour)
            points = ax.scatter(
                *(cloud.x[there], cloud.y[there], SIZE, cloud.colour[there]),
                **{**LOOK, "marker": marker, "cmap": style.MAP, "vmin": low, "vmax": high},
            )
            if cloud.label:
                handles.setdefault(cloud.label, _key(marker, "0.6"))
            if not there.all():
                ax.scatter(cloud.x[~there], cloud.y[~there], SIZE, "white", **{**LOOK, "marker": marker})
                handles["no " + colour.label] = _key("o", "white")
    bar = figure.colorbar(points, ax=axes, label=upright(colour.label), aspect=25, pad=0.02)
    bar.outline.set_linewidth(0.5)
    return handles


def _key(marker: str, colour: str) -> Line2D:
    return Line2D(
        [], [], linestyle="none", marker=marker, markerfacecolor=colour, markeredgecolor="black", markeredgewidth=0.5
    )
