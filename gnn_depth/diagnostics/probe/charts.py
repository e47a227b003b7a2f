"""Charts for a probe's page: each measure by layer, with thresholds, and the remedies over it."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gnn_depth.diagnostics.probe.findings import CRITERIA
from gnn_depth.diagnostics.probe.layer_values import COLUMNS, LayerValues
from gnn_depth.web_page import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS_OF_CHARTS = 3  # charts beside each other
DECADES = 1.5  # positive values over a wider range get a logarithmic axis
LIMIT: dict[str, Any] = {"color": "#C00000", "linestyle": "--", "linewidth": 1.0}
# Okabe & Ito: readable by the colour-blind.
REMEDY_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")


def charts(models: Sequence[tuple[str, Sequence[LayerValues]]]) -> str:
    """One SVG picture with a chart of each measure by layer; measures without any value are left
    out.

    The first model is the probed one, the others are the same with a remedy.
    """
    import matplotlib  # slow to import, and few reports draw
    from matplotlib.figure import Figure

    drawn = []
    for symbol in COLUMNS:
        if any(layer.value(symbol) is not None for layer in models[0][1]):
            drawn.append(symbol)
    rows = math.ceil(len(drawn) / COLUMNS_OF_CHARTS)
    if not rows:
        return ""
    # Text stays text, which can be searched and takes less room than outlines.
    look: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "gnn-depth", "font.size": 9}
    with matplotlib.rc_context(look):
        figure = Figure(figsize=(4 * COLUMNS_OF_CHARTS, 2.3 * rows), layout="constrained")
        charts = figure.subplots(rows, COLUMNS_OF_CHARTS, squeeze=False).ravel()
        for spare in charts[len(drawn) :]:
            spare.remove()
        keys: dict[str, Any] = {}  # one legend for all charts, whose lines have the same labels
        for axes, symbol in zip(charts, drawn, strict=False):
            _chart(axes, symbol, models)
            for line in axes.get_lines():
                if not line.get_label().startswith("_"):
                    keys[line.get_label()] = line
        figure.legend(keys.values(), keys, loc="outside upper left", ncols=4, frameon=False)
        return svg(figure)


def _chart(axes: "Axes", symbol: str, models: Sequence[tuple[str, Sequence[LayerValues]]]) -> None:
    """Draw a measure over the layers; values that are not finite are marked at the bottom."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(COLUMNS[symbol][0], fontsize=10, loc="left")
    axes.set_xlabel("layer", fontsize=8)
    values: list[float] = []
    for index, (name, layers) in enumerate(models):
        numbers, heights, lost = [], [], []
        for layer in layers:
            value = layer.value(symbol)
            if value is None:
                continue
            numbers.append(layer.number)
            if math.isfinite(value):
                values.append(value)
            else:
                lost.append(layer.number)
                value = math.nan  # infinity would stretch the axis
            heights.append(value)
        if index:
            colour = REMEDY_COLOURS[(index - 1) % len(REMEDY_COLOURS)]
            axes.plot(numbers, heights, color=colour, label=name, zorder=2, linewidth=1.0)
        else:
            colour = "black"
            look: dict[str, Any] = {"linewidth": 1.6, "marker": "o", "markersize": 3}
            axes.plot(numbers, heights, color=colour, label=name, zorder=3, **look)
        if lost:
            bottom = axes.get_xaxis_transform()
            marks = [0.02] * len(lost)
            axes.plot(lost, marks, "x", color=colour, transform=bottom, label="not finite")
    if values and min(values) > 0 and math.log10(max(values) / min(values)) > DECADES:
        axes.set_yscale("log")
    # A limit far away from all values would only flatten the chart.
    low, high = axes.get_ylim()
    for limit in _limits(symbol, models[0][1]):
        if low <= limit <= high:
            axes.axhline(limit, label="limit", **LIMIT)
    axes.set_ylim(low, high)
    first, last = models[0][1][0].number, models[0][1][-1].number
    axes.set_xlim(first - 0.5, last + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def _limits(symbol: str, layers: Sequence[LayerValues]) -> Iterator[float]:
    """The thresholds of a measure: those relative to the first or last layer are turned into
    values of the chart."""
    for criterion in CRITERIA:
        if criterion.symbol != symbol:
            continue
        for relative, layer in zip(criterion.of(layers), layers, strict=True):
            value = layer.value(symbol)
            if relative and value and math.isfinite(value / relative):
                yield criterion.limit * (value / relative)
                break
