"""Lines with bands, drawn with Plotly."""

import html
from typing import Any

import numpy as np
from plotly.graph_objects import Figure, Scatter

from gnn_depth.reports.figures.charts import Line, Lines
from gnn_depth.reports.figures.style import css_dash, line_dashes, stroke

ALL_MARKED = 30  # lines of more points are drawn without markers; hovering finds each point all the same


def add_lines(figure: Figure, chart: Lines, columns: int) -> None:
    """Add every panel's lines; a click in the legend hides a line with its bands in all panels."""
    named: set[str] = set()
    for place, panel in enumerate(chart.panels):
        where = {"row": place // columns + 1, "col": place % columns + 1}
        for line in panel.lines:
            for depth, band in enumerate(line.bands):
                for trace in _band(line, band.low, band.high, band.stretches(_apart(line, chart)), 0.16 + 0.1 * depth):
                    figure.add_trace(trace, **where)
            show = bool(line.label) and line.label not in named
            named.add(line.label)
            figure.add_trace(_line(line, chart, show), **where)


def _line(line: Line, chart: Lines, show: bool) -> Scatter:
    pen = stroke(line.style)
    marks = len(line.x) <= ALL_MARKED
    lines = not _apart(line, chart)
    return Scatter(
        x=line.x,
        y=line.y,
        name=html.escape(line.label),
        legendgroup=line.label,
        showlegend=show,
        mode="+".join(["lines"] * lines + ["markers"] * (marks or not lines)),
        line={"color": pen.colour, "width": 2, "dash": css_dash(line_dashes(line.part, pen))},
        marker={
            "symbol": pen.symbol + ("-open" if line.part in ("start", "published") else ""),
            "color": pen.colour,
            "size": 8,
        },
        hovertext=[_html(note) for note in line.notes] or None,
        hovertemplate=f"%{{hovertext}}<br>{_html(line.note)}<extra></extra>",
        connectgaps=False,
    )


def _apart(line: Line, chart: Lines) -> bool:
    """Whether nothing connects the points."""
    return chart.x.categories or line.part == "published"


def _band(line: Line, low: np.ndarray, high: np.ndarray, parts: list[slice], opacity: float) -> list[Scatter]:
    """One outline around all stretches of a band, and bars at points that stand alone."""
    pen = stroke(line.style)
    shared: dict[str, Any] = {"legendgroup": line.label, "showlegend": False, "hoverinfo": "skip"}
    made = []
    wide = [part for part in parts if part.stop - part.start > 1]
    if wide:
        # None between the stretches ends one outline and begins another.
        x = [at for part in wide for at in (*line.x[part], *line.x[part][::-1], None)]
        y = [at for part in wide for at in (*low[part], *high[part][::-1], None)]
        look = {"fill": "toself", "fillcolor": _rgba(pen.colour, opacity), "line": {"width": 0}}
        made.append(Scatter(x=x, y=y, mode="lines", **look, **shared))
    if single := [part.start for part in parts if part.stop - part.start == 1]:
        middle, half = (low[single] + high[single]) / 2, (high[single] - low[single]) / 2
        bars = {"type": "data", "array": half, "color": pen.colour, "thickness": 1.5, "width": 5}
        made.append(Scatter(x=line.x[single], y=middle, mode="markers", marker={"opacity": 0}, error_y=bars, **shared))
    return made


def _html(text: str) -> str:
    return html.escape(text).replace("\n", "<br>")


def _rgba(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.2f})"
