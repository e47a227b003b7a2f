"""Charts on a page: one HTML file with Plotly inside, which opens without a network."""

import html
from pathlib import Path

from plotly.graph_objects import Figure
from plotly.io import to_html
from plotly.subplots import make_subplots

from gnn_depth.reports.figures.charts import Axis, Chart, Lines, Maps, grid
from gnn_depth.reports.figures.page.clouds import add_clouds
from gnn_depth.reports.figures.page.lines import add_lines
from gnn_depth.reports.figures.page.maps import add_maps
from gnn_depth.reports.web import web_page

PANEL_HEIGHT = 430  # pixels
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


def page(chart: Chart, title: str = "") -> str:
    """A chart as a page of HTML that needs no other file.

    Args:
        chart: What to draw.
        title: Heading of the page.
    """
    plot = to_html(to_plotly(chart), full_html=False, include_plotlyjs=True, config=CONFIG)
    return web_page(title or heading(chart), f"{plot}\n<p>{html.escape(chart.caption)}</p>")


def write_page(chart: Chart, path: Path, title: str = "") -> None:
    """Write a chart as a page."""
    path.write_text(page(chart, title), encoding="utf-8")


def heading(chart: Chart) -> str:
    """What a chart is of, for a page that nobody gave a title."""
    if isinstance(chart, Lines):
        return chart.y.label
    return chart.colour.label if isinstance(chart, Maps) else f"{chart.y.label}, and {chart.x.label}"


def to_plotly(chart: Chart) -> Figure:
    """A chart as Plotly's figure: its panels with shared axes, and the legend beside them."""
    count = len(chart.panels)
    columns, rows = grid(count)
    # Without a template: the default one holds every kind of chart, in Plotly 6 deprecated ones.
    figure = make_subplots(
        rows,
        columns,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[html.escape(panel.title) for panel in chart.panels] if count > 1 else None,
        horizontal_spacing=0.04,
        vertical_spacing=0.12 / rows,
        figure=Figure(layout={"template": "none"}),
    )
    if isinstance(chart, Lines):
        add_lines(figure, chart, columns)
    elif isinstance(chart, Maps):
        add_maps(figure, chart, columns)
    else:
        add_clouds(figure, chart, columns)
    _axes(figure, chart, columns, count)
    figure.update_layout(
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222222"},
        height=90 + PANEL_HEIGHT * rows,
        margin={"l": 70, "r": 20, "t": 70, "b": 60},
        hoverlabel={"align": "left"},
        legend=_legend(chart),
    )
    return figure


def _legend(chart: Chart) -> dict[str, object]:
    """Where the legend is: to the right of everything, a colour bar too."""
    title = "" if isinstance(chart, Maps) else chart.legend
    bar = isinstance(chart, Maps) or (not isinstance(chart, Lines) and chart.colour is not None)
    return {"title": {"text": html.escape(title)}, "tracegroupgap": 0, "x": 1.13 if bar else 1.02}


def _axes(figure: Figure, chart: Chart, columns: int, count: int) -> None:
    figure.update_xaxes(**GRID, **_axis(chart.x))
    figure.update_yaxes(**GRID, **_axis(chart.y))
    for place in range(count):
        row, column = place // columns + 1, place % columns + 1
        if place + columns >= count:
            figure.update_xaxes(title_text=html.escape(chart.x.label), showticklabels=True, row=row, col=column)
        if column == 1:
            figure.update_yaxes(title_text=html.escape(chart.y.label), row=row, col=column)


def _axis(axis: Axis) -> dict[str, object]:
    made: dict[str, object] = {"type": "log", "exponentformat": "power", "dtick": 1} if axis.log else {"type": "linear"}
    if axis.ticks:
        places, names = zip(*axis.ticks, strict=True)
        made |= {"tickvals": places, "ticktext": [html.escape(name) for name in names]}
    if axis.within:
        made |= {"minallowed": axis.within[0], "maxallowed": axis.within[1]}
    if axis.categories:
        made["range"] = [-0.5, len(axis.ticks) - 0.5]
    return made
