"""Charts on paper: Matplotlib's Figure without pyplot, so that no display and no global state is needed."""

from pathlib import Path

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from gnn_depth.reports.figures import style
from gnn_depth.reports.figures.charts import Chart, Clouds, Lines, Maps, grid
from gnn_depth.reports.figures.paper.axes import keep_within, make_axes
from gnn_depth.reports.figures.paper.clouds import draw_clouds
from gnn_depth.reports.figures.paper.foot import add_head_and_foot
from gnn_depth.reports.figures.paper.lines import draw_lines
from gnn_depth.reports.figures.paper.maps import draw_maps


def write_paper(chart: Chart, path: Path, title: str = "") -> None:
    """Draw a chart into a file, PNG or PDF by its suffix."""
    figure = draw(chart, title)
    with matplotlib.rc_context(style.RC):
        figure.savefig(path, dpi=style.DPI)


def draw(chart: Chart, title: str = "") -> Figure:
    """Draw a chart: its panels with shared axes, and below them the legend and the caption in full.

    Args:
        chart: What to draw.
        title: Stands above all panels.
    """
    with matplotlib.rc_context(style.RC):
        columns, rows = grid(len(chart.panels))
        size = (style.COLUMN if columns == 1 else style.PAGE, rows * style.PANEL_HEIGHT)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        axes = make_axes(figure, columns, rows, chart)
        handles = _panels(figure, axes, chart)
        keep_within(axes[0], chart)
        add_head_and_foot(figure, chart, handles, title)
        return figure


def _panels(figure: Figure, axes: list[Axes], chart: Chart) -> dict[str, Artist]:
    """Draw what the panels show; returns what the legend shows, by its label."""
    if isinstance(chart, Lines):
        return draw_lines(axes, chart)
    if isinstance(chart, Maps):
        return draw_maps(figure, axes, chart)
    assert isinstance(chart, Clouds)
    return draw_clouds(figure, axes, chart)
