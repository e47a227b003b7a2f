"""Write charts as an HTML page with Plotly included, which opens without a network."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from plotly.colors import hex_to_rgb
from plotly.graph_objects import Figure, Heatmap, Scatter
from plotly.io import to_html
from plotly.subplots import make_subplots

from gnn_depth.measurements import edges
from gnn_depth.reports.figures.charts import (
    Axis,
    Chart,
    HeatMap,
    Line,
    Points,
    areas_and_bars,
    stroke,
)
from gnn_depth.web_page import web_page

PANEL_HEIGHT, PIXELS = 430, 96  # of a panel, and of an inch
ALL_MARKED = 30  # lines of more points have no markers; hovering finds each point all the same
GRID = {
    "showgrid": True,
    "gridcolor": "#E5E5E5",
    "zeroline": False,
    "linecolor": "#444444",
    "ticks": "outside",
    "automargin": True,
    "title": {"standoff": 12},
}
# The page stays on its reader's machine: no button uploads it.
CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d"],
}
UNCOLOURED = {"not finite": "#D9D9D9", "exactly zero": "#000000"}


def write_page(
    chart: Chart, path: Path, title: str = "", size: tuple[float, float] | None = None
) -> None:
    """Write a chart as a page of HTML that needs no other file.

    Its heading is by default the quantities of the chart, its size that of the window and of all
    panels.
    """
    labels = [chart.colour.label] if chart.colour and chart.panels[0].map else [chart.y.label]
    labels += [chart.x.label] if chart.panels[0].points else []
    figure = to_plotly(chart)
    if size:
        figure.update_layout(width=PIXELS * size[0], height=PIXELS * size[1])
    plot = to_html(figure, full_html=False, include_plotlyjs=True, config=CONFIG)
    page = web_page(title or ", and ".join(labels), f"{plot}\n<p>{html.escape(chart.caption)}</p>")
    path.write_text(page, encoding="utf-8")


def to_plotly(chart: Chart) -> Figure:
    """A chart as a Plotly figure: panels with shared axes, and one legend for all."""
    count, columns = len(chart.panels), chart.columns
    # Without a template: the default one contains every kind of chart, in Plotly 6 deprecated ones.
    figure = make_subplots(
        chart.rows,
        columns,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[html.escape(panel.title) for panel in chart.panels] if count > 1 else None,
        horizontal_spacing=0.04,
        vertical_spacing=0.12 / chart.rows,
        figure=Figure(layout={"template": "none"}),
    )
    figure.update_xaxes(**GRID, **_axis(chart.x))
    figure.update_yaxes(**GRID, **_axis(chart.y))
    named: set[str] = set()
    for place, panel in enumerate(chart.panels):
        at = {"row": place // columns + 1, "col": place % columns + 1}
        traces = [trace for line in panel.lines for trace in _line_traces(line, chart.x)]
        traces += [
            trace
            for points in panel.points
            for trace in _point_traces(points, chart.colour is None)
        ]
        traces += _map_traces(panel.map, chart) if panel.map else []
        for trace in traces:
            if trace.showlegend is None:  # one entry in the legend for all panels
                trace.showlegend = bool(trace.name) and trace.name not in named
                named.add(trace.name)
            figure.add_trace(trace, **at)
        if place + columns >= count:
            figure.update_xaxes(title_text=html.escape(chart.x.label), showticklabels=True, **at)
        if at["col"] == 1:
            figure.update_yaxes(title_text=html.escape(chart.y.label), **at)
    if chart.colour:
        low, high, diverging = chart.colours
        bar = {"title": {"text": html.escape(chart.colour.label), "side": "right"}}
        colours = "RdBu_r" if diverging else "Viridis"
        figure.update_layout(
            coloraxis={"colorscale": colours, "cmin": low, "cmax": high, "colorbar": bar}
        )
    figure.update_layout(
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222222"},
        height=90 + PANEL_HEIGHT * chart.rows,
        margin={"l": 70, "r": 20, "t": 70, "b": 60},
        hoverlabel={"align": "left"},
        # To the right of the panels, and of the colour bar.
        legend={
            "title": {"text": html.escape(chart.legend)},
            "tracegroupgap": 0,
            "x": 1.13 if chart.colour else 1.02,
        },
    )
    return figure


def _axis(axis: Axis) -> dict[str, Any]:
    made: dict[str, Any] = (
        {"type": "log", "exponentformat": "power"} if axis.log else {"type": "linear"}
    )
    if axis.ticks:
        places, names = zip(*axis.ticks, strict=True)
        made |= {"tickvals": places, "ticktext": [html.escape(name) for name in names]}
    if axis.within and not axis.log:
        made |= {"minallowed": axis.within[0], "maxallowed": axis.within[1]}
    if axis.categories:
        made["range"] = [-0.5, len(axis.ticks) - 0.5]
    return made


def _line_traces(line: Line, x: Axis) -> Iterator[Scatter]:
    """The bands and the line; a click in the legend hides them together in all panels."""
    pen, apart = stroke(line.style), line.apart(x)
    shared: dict[str, Any] = {"legendgroup": line.label, "showlegend": False, "hoverinfo": "skip"}
    for depth, (low, high) in enumerate(line.bands):
        areas, bars = areas_and_bars(low, high, apart)
        if areas:
            # None between the stretches ends one outline and begins another.
            outline_x = [at for part in areas for at in (*line.x[part], *line.x[part][::-1], None)]
            outline_y = [at for part in areas for at in (*low[part], *high[part][::-1], None)]
            fill = f"rgba{(*hex_to_rgb(pen.colour), round(0.16 + 0.1 * depth, 2))}"
            look = {"fill": "toself", "fillcolor": fill, "line": {"width": 0}}
            yield Scatter(x=outline_x, y=outline_y, mode="lines", **look, **shared)
        if bars:
            half = {
                "type": "data",
                "array": (high - low)[bars] / 2,
                "color": pen.colour,
                "thickness": 1.5,
                "width": 5,
            }
            look = {"mode": "markers", "marker": {"opacity": 0}, "error_y": half}
            yield Scatter(x=line.x[bars], y=(low + high)[bars] / 2, **look, **shared)
    markers = apart or len(line.x) <= ALL_MARKED
    opened = "-open" if line.part in ("start", "published") else ""
    dashes = (
        ",".join(f"{2 * length:g}px" for length in line.dashes) or "solid"
    )  # in pixels of a line two wide
    yield Scatter(
        x=line.x,
        y=line.y,
        name=html.escape(line.label),
        legendgroup=line.label,
        mode="+".join(["lines"] * (not apart) + ["markers"] * markers),
        line={"color": pen.colour, "width": 2, "dash": dashes},
        marker={"symbol": pen.symbol + opened, "color": pen.colour, "size": 8},
        hovertext=[_html(text) for text in _hover(line, x)],
        hovertemplate=f"%{{hovertext}}<br>{_html(line.note)}<extra></extra>",
        connectgaps=False,
    )


def _hover(line: Line, x: Axis) -> Iterator[str]:
    """The text shown over each point: its position, its value, the bands, and its note."""
    ticks, part = dict(x.ticks), "" if line.part == "whole" else f" ({line.part})"
    for place, (at, value) in enumerate(zip(line.x, line.y, strict=True)):
        name = ticks.get(round(at) if x.categories else at, f"{at:g}")
        bands = [
            f"{low[place]:.4g} to {high[place]:.4g}"
            for low, high in line.bands
            if np.isfinite(low[place])
        ]
        texts = (
            line.label + part,
            f"{x.label} {name}: {value:.4g}",
            *bands,
            *line.notes[place : place + 1],
        )
        yield "\n".join(filter(None, texts))


def _point_traces(points: Points, plain: bool) -> Iterator[Scatter]:
    """Points with a value, and open markers for points without."""
    there = np.isfinite(points.colour) | plain
    pen = stroke(points.style)
    notes = np.array([_html(note) for note in points.notes] or [""] * len(points.x))
    for where, look in (
        (
            there,
            {"color": pen.colour}
            if plain
            else {"color": points.colour[there], "coloraxis": "coloraxis"},
        ),
        (~there, {"color": "white"}),
    ):
        if where.any():
            yield Scatter(
                x=points.x[where],
                y=points.y[where],
                mode="markers",
                name=html.escape(points.label),
                legendgroup=points.label,
                marker={**look, "symbol": pen.symbol, "size": 10, "line": {"width": 1}},
                hovertext=notes[where],
                hovertemplate="%{hovertext}<extra></extra>",
            )


def _map_traces(map_: HeatMap, chart: Chart) -> Iterator[Heatmap | Scatter]:
    """A heat map of the values, with grey or black for values without a colour, explained in the
    legend."""
    note = _html(map_.note)
    # Plotly itself would name the middle between the edges of a cell.
    x, y = html.escape(chart.x.label), html.escape(chart.y.label)
    text = [[f"{y} {row:g}, {x} {column:g}" for column in map_.x] for row in map_.y]
    shared = {
        "x": edges(map_.x),
        "y": edges(map_.y),
        "text": text,
        "hoverongaps": False,
        "showlegend": False,
    }

    def hover(value: str) -> str:
        return f"%{{text}}<br><b>{value}</b><br>{note}<extra></extra>"

    for name, where in map_.uncoloured.items():
        colour = UNCOLOURED[name]
        flat = {"colorscale": [[0, colour], [1, colour]], "showscale": False}
        yield Heatmap(z=np.where(where, 0.0, np.nan), hovertemplate=hover(name), **flat, **shared)
        key = {"symbol": "square", "size": 12, "color": colour}
        yield Scatter(x=[None], y=[None], mode="markers", name=name, marker=key)
    z = np.where(np.isfinite(map_.values), map_.values, np.nan)
    yield Heatmap(z=z, coloraxis="coloraxis", hovertemplate=hover("%{z:.4g}"), **shared)


def _html(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")
