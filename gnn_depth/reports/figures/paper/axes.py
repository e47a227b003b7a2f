"""Axes of the panels: shared, named on the left and below, ticked at whole or given places."""

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gnn_depth.reports.figures import style
from gnn_depth.reports.figures.charts import Axis, Chart
from gnn_depth.reports.figures.paper.text import width_of, wrapped

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALL = 8.0  # size of the ticks' labels


def make_axes(figure: Figure, columns: int, rows: int, chart: Chart) -> list[Axes]:
    """One pair of axes for each panel, with a name and ticks' labels where nothing else stands."""
    every = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    titles = [panel.title for panel in chart.panels]
    for spare in every[len(titles) :]:
        spare.remove()
    width = (style.PAGE if columns > 1 else style.COLUMN) / columns
    for place, (axes, title) in enumerate(zip(every, titles, strict=False)):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title("\n".join(wrapped(title, width - 0.3, style.FONT)))
        axes.set(xscale="log" if chart.x.log else "linear", yscale="log" if chart.y.log else "linear")
        lowest = place + columns >= len(titles)
        axes.tick_params(labelbottom=lowest)
        if lowest:
            axes.set_xlabel(chart.x.label)
        if place % columns == 0:
            axes.set_ylabel(upright(chart.y.label))
        _ticks(axes.xaxis, chart.x, width)
        _ticks(axes.yaxis, chart.y, style.PANEL_HEIGHT)
    return list(every[: len(titles)])


def keep_within(axes: Axes, chart: Chart) -> None:
    """Cut the upward axis, which all panels share, where the chart says, once everything is drawn."""
    if chart.y.within:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, chart.y.within[0]), min(high, chart.y.within[1]))


def upright(label: str) -> str:
    """A label that is read from the side, in as many lines as the height of a panel asks for."""
    return "\n".join(wrapped(label, style.PANEL_HEIGHT - 0.5, style.FONT))


def power_of_ten(value: float, place: int | None = None) -> str:
    """``10⁻³`` of 0.001, and nothing of what is no power."""
    exponent = round(math.log10(value))
    return "10" + str(exponent).translate(RAISED) if math.isclose(value, 10.0**exponent) else ""


def _ticks(target: Any, axis: Axis, width: float) -> None:
    if axis.ticks:
        places, names = zip(*axis.ticks, strict=True)
        target.set_ticks(places, labels=names)
        target.set_ticks([], minor=True)
        if sum(width_of(f"{name}  ", SMALL) for name in names) > 0.8 * width:
            for label in target.get_ticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
    elif axis.log:
        target.set_major_formatter(FuncFormatter(power_of_ten))
    else:
        target.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10], integer=axis.whole))
