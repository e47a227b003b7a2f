"""Scattered points coloured by a value, drawn with Plotly."""

import html

import numpy as np
from plotly.graph_objects import Figure, Scatter

from gnn_depth.reports.figures.charts import Cloud, Clouds, colour_range
from gnn_depth.reports.figures.style import stroke


def add_clouds(figure: Figure, chart: Clouds, columns: int) -> None:
    """Add every panel's points with the same colours; a point without a value is open."""
    if chart.colour is not None:
        low, high = colour_range([cloud.colour for panel in chart.panels for cloud in panel.clouds])
        scale = {"colorscale": "Viridis", "cmin": low, "cmax": high}
        bar = {"title": {"text": html.escape(chart.colour.label), "side": "right"}}
        figure.update_layout(coloraxis={**scale, "colorbar": bar})
    named: set[str] = set()
    for place, panel in enumerate(chart.panels):
        for cloud in panel.clouds:
            show = bool(cloud.label) and cloud.label not in named
            named.add(cloud.label)
            for trace in _points(cloud, show, plain=chart.colour is None):
                figure.add_trace(trace, row=place // columns + 1, col=place % columns + 1)


def _points(cloud: Cloud, show: bool, plain: bool) -> list[Scatter]:
    there = np.isfinite(cloud.colour) | plain
    pen = stroke(cloud.style)
    notes = np.array([html.escape(note).replace("\n", "<br>") for note in cloud.notes] or [""] * len(cloud.x))
    made: list[Scatter] = []
    for where, look in (
        (there, {"color": pen.colour} if plain else {"color": cloud.colour[there], "coloraxis": "coloraxis"}),
        (~there, {"color": "white"}),
    ):
        if where.any():
            made.append(
                Scatter(
                    x=cloud.x[where],
                    y=cloud.y[where],
                    mode="markers",
                    name=html.escape(cloud.label),
                    legendgroup=cloud.label,
                    showlegend=show and not made,
                    marker={**look, "symbol": pen.symbol, "size": 10, "line": {"width": 1}},
                    hovertext=notes[where],
                    hovertemplate="%{hovertext}<extra></extra>",
                )
            )
    return made
