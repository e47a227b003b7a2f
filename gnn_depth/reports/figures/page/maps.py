"""Heat maps, drawn with Plotly."""

import html

import numpy as np
from plotly.graph_objects import Figure, Heatmap, Scatter

from gnn_depth.reports.figures.charts import MapPanel, Maps, cell_edges, colour_range
from gnn_depth.reports.figures.style import NOT_FINITE

ZERO = "#000000"  # below the darkest colour of the scale, as zero is below every logarithm


def add_maps(figure: Figure, chart: Maps, columns: int) -> None:
    """Add every panel's map with the same colours; what has no colour lies below in grey or black."""
    marks: dict[str, str] = {}
    low, high = colour_range([panel.values for panel in chart.panels])
    for place, panel in enumerate(chart.panels):
        where = {"row": place // columns + 1, "col": place % columns + 1}
        x, y = cell_edges(panel.x), cell_edges(panel.y)
        zero = np.isneginf(panel.values) & chart.zeros
        for label, there, colour in (
            ("not finite", ~np.isfinite(panel.values) & ~zero, NOT_FINITE),
            ("exactly zero", zero, ZERO),
        ):
            if there.any():
                figure.add_trace(_flat(panel, chart, x, y, there, label, colour), **where)
                marks[label] = colour
        figure.add_trace(
            Heatmap(
                x=x,
                y=y,
                z=np.where(np.isfinite(panel.values), panel.values, np.nan),
                colorscale="Viridis",
                zmin=low,
                zmax=high,
                showscale=place == 0,
                colorbar={"title": {"text": html.escape(chart.colour.label), "side": "right"}},
                text=_texts(panel, chart),
                hovertemplate=_hover(panel, "%{z:.4g}"),
                hoverongaps=False,
            ),
            **where,
        )
    for label, colour in marks.items():
        marker = {"symbol": "square", "size": 12, "color": colour}
        figure.add_trace(Scatter(x=[None], y=[None], mode="markers", name=label, marker=marker), row=1, col=1)


def _flat(
    panel: MapPanel, chart: Maps, x: np.ndarray, y: np.ndarray, there: np.ndarray, label: str, colour: str
) -> Heatmap:
    return Heatmap(
        x=x,
        y=y,
        z=np.where(there, 0.0, np.nan),
        colorscale=[[0, colour], [1, colour]],
        showscale=False,
        text=_texts(panel, chart),
        hovertemplate=_hover(panel, label),
        hoverongaps=False,
    )


def _texts(panel: MapPanel, chart: Maps) -> list[list[str]]:
    """Where a cell is: Plotly itself would say the middle between its edges."""
    x, y = html.escape(chart.x.label), html.escape(chart.y.label)
    return [[f"{y} {row:g}, {x} {column:g}" for column in panel.x] for row in panel.y]


def _hover(panel: MapPanel, value: str) -> str:
    note = html.escape(panel.note).replace("\n", "<br>")
    return "%{text}<br>" + f"<b>{value}</b><br>{note}<extra></extra>"
