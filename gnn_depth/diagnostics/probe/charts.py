"""Charts for a probe's page: each quantity by layer, with thresholds, and the remedies drawn over
it."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gnn_depth.diagnostics.probe.findings import CRITERIA
from gnn_depth.diagnostics.probe.readings import COLUMNS, Reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS_OF_CHARTS = 3  # charts beside each other
DECADES = 1.5  # positive values over a wider range get a logarithmic axis
LIMIT: dict[str, Any] = {"color": "#C00000", "linestyle": "--", "linewidth": 1.0}
REMEDY_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
)  # Okabe & Ito: readable by the colour-blind


def charts(models: Sequence[tuple[str, Sequence[Reading]]]) -> str:
    """One SVG picture with a chart of each quantity by layer; quantities without any value are left
    out.

    The first model is the probed one, the others are the same with a remedy.
    """
    import matplotlib  # slow to import, and few reports draw
    from matplotlib.figure import Figure

    drawn = [
        symbol
        for symbol in COLUMNS
        if any(reading.value(symbol) is not None for reading in models[0][1])
    ]
    rows = -(-len(drawn) // COLUMNS_OF_CHARTS)
    if not rows:
        return ""
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4 * COLUMNS_OF_CHARTS, 2.3 * rows), layout="constrained")
        charts = figure.subplots(rows, COLUMNS_OF_CHARTS, squeeze=False).ravel()
        for spare in charts[len(drawn) :]:
            spare.remove()
        keys: dict[str, Any] = {}
        for axes, symbol in zip(charts, drawn, strict=False):
            _chart(axes, symbol, models)
            keys |= {
                line.get_label(): line
                for line in axes.get_lines()
                if not line.get_label().startswith("_")
            }
        figure.legend(keys.values(), keys, loc="outside upper left", ncols=4, frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def _chart(axes: "Axes", symbol: str, models: Sequence[tuple[str, Sequence[Reading]]]) -> None:
    """Draw a quantity over the layers; values that are not finite are marked at the bottom."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(COLUMNS[symbol][0], fontsize=10, loc="left")
    axes.set_xlabel("layer", fontsize=8)
    values: list[float] = []
    for index, (name, readings) in enumerate(models):
        known = [
            (reading.number, value)
            for reading in readings
            if (value := reading.value(symbol)) is not None
        ]
        colour = REMEDY_COLOURS[(index - 1) % len(REMEDY_COLOURS)] if index else "black"
        layers = [layer for layer, _ in known]
        heights = [value if math.isfinite(value) else math.nan for _, value in known]
        look: dict[str, Any] = (
            {"linewidth": 1.0} if index else {"linewidth": 1.6, "marker": "o", "markersize": 3}
        )
        axes.plot(layers, heights, color=colour, label=name, zorder=2 if index else 3, **look)
        if lost := [layer for layer, value in known if not math.isfinite(value)]:
            bottom = axes.get_xaxis_transform()
            axes.plot(
                lost, [0.02] * len(lost), "x", color=colour, transform=bottom, label="not finite"
            )
        values += [value for value in heights if math.isfinite(value)]
    if values and min(values) > 0 and math.log10(max(values) / min(values)) > DECADES:
        axes.set_yscale("log")
    low, high = axes.get_ylim()
    for limit in _limits(symbol, models[0][1]):
        if low <= limit <= high:
            axes.axhline(limit, label="limit", **LIMIT)
    axes.set_ylim(low, high)
    numbers = [reading.number for reading in models[0][1]]
    axes.set_xlim(numbers[0] - 0.5, numbers[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)


def _limits(symbol: str, readings: Sequence[Reading]) -> Iterator[float]:
    """The thresholds of a quantity: those relative to the first or last layer are turned into
    values of the chart."""
    for criterion in CRITERIA:
        if criterion.symbol == symbol:
            values = [reading.value(symbol) for reading in readings]
            ratios = [value / relative for relative, value in zip(criterion.of(readings), values, strict=True)
                      if relative and value]  # fmt: skip
            yield from [criterion.limit * ratio for ratio in ratios if math.isfinite(ratio)][:1]
