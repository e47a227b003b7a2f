"""Heat maps, drawn with Matplotlib."""

from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gnn_depth.reports.figures import style
from gnn_depth.reports.figures.charts import MapPanel, Maps, cell_edges, colour_range, stretches
from gnn_depth.reports.figures.paper.axes import upright

HATCHED: dict[str, Any] = {"facecolor": style.NOT_FINITE, "edgecolor": "#8C8C8C", "hatch": "////", "linewidth": 0.0}
EMPTY: dict[str, Any] = {"facecolor": "white", "edgecolor": "#8C8C8C", "hatch": "....", "linewidth": 0.0}


def draw_maps(figure: Figure, axes: list[Axes], chart: Maps) -> dict[str, Artist]:
    """Draw every panel and one colour bar; returns the marks of values without a colour, by their label."""
    low, high = colour_range([panel.values for panel in chart.panels])
    marks: dict[str, Artist] = {}
    for ax, panel in zip(axes, chart.panels, strict=True):
        marks |= _missing(ax, panel, chart.zeros)
        mesh = ax.pcolormesh(
            cell_edges(panel.x),
            cell_edges(panel.y),
            np.ma.masked_invalid(panel.values),
            cmap=style.MAP,
            vmin=low,
            vmax=high,
            rasterized=True,  # thousands of cells would make a PDF slow
            zorder=2,
        )
    bar = figure.colorbar(mesh, ax=axes, label=upright(chart.colour.label), aspect=25, pad=0.02)
    bar.outline.set_linewidth(0.5)
    return marks


def _missing(ax: Axes, panel: MapPanel, zeros: bool) -> dict[str, Artist]:
    """Hatch what has no colour: overflow and nothing in grey, and an exact zero, whose logarithm is -inf, in white."""
    x, y = cell_edges(panel.x), cell_edges(panel.y)
    zero = np.isneginf(panel.values) & zeros
    marks: dict[str, Artist] = {}
    for label, where, look in (
        ("not finite", ~np.isfinite(panel.values) & ~zero, HATCHED),
        ("exactly zero", zero, EMPTY),
    ):
        for row in np.flatnonzero(where.any(axis=1)):
            for part in stretches(where[row]):
                width, height = x[part.stop] - x[part.start], y[row + 1] - y[row]
                ax.add_patch(Rectangle((x[part.start], y[row]), width, height, zorder=1, **look))
        if where.any():
            marks[label] = Patch(label=label, **look)
    return marks
