"""What stands above and below the panels: title, legend and caption."""

from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from gnn_depth.reports.figures.charts import Chart, Lines, Maps
from gnn_depth.reports.figures.paper.text import height_of, wrapped

TITLE, CAPTION = 9.5, 8.0  # sizes
GAP = 0.05  # inches
MOST_COLUMNS = 6


def add_head_and_foot(figure: Figure, chart: Chart, handles: dict[str, Artist], title: str) -> None:
    """Make a figure taller by what title, legend and caption take, so that they hide nothing."""
    width, height = figure.get_size_inches()
    head, lines = wrapped(title, width, TITLE), wrapped(chart.caption, width, CAPTION)
    if head:
        figure.suptitle("\n".join(head), fontsize=TITLE)
    legend = _legend(figure, chart, handles) if handles else None
    below = height_of(len(lines), CAPTION) + GAP
    foot = below + (legend.get_window_extent().height / figure.dpi + GAP if legend else 0.0)
    total = height + foot + height_of(len(head), TITLE)
    figure.set_size_inches(width, total)
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0, foot / total, 1, 1 - foot / total), w_pad=GAP, h_pad=GAP)
    if legend:
        legend.set_bbox_to_anchor((0.5, foot / total), figure.transFigure)
    figure.text(0.5, below / total, "\n".join(lines), ha="center", va="top", size=CAPTION, linespacing=1.2, color="0.2")


def _legend(figure: Figure, chart: Chart, handles: dict[str, Artist]) -> Any:
    """A legend in as many columns as fit, which hangs from its anchor."""
    for columns in range(min(len(handles), MOST_COLUMNS), 0, -1):
        legend = figure.legend(
            list(handles.values()),
            list(handles),
            title=None if isinstance(chart, Maps) else chart.legend or None,
            ncols=columns,
            loc="upper center",
            frameon=False,
            handlelength=3.4 if isinstance(chart, Lines) else 1.4,
            columnspacing=1.4,
        )
        legend.set_in_layout(False)
        if columns > 1 and legend.get_window_extent().width > figure.bbox.width:
            legend.remove()
            continue
        return legend
    return None
