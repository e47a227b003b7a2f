"""The charts of a probe's page: every quantity over the layers, with its limits, and remedies laid over it."""

import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gnn_depth.diagnostics.probe.findings import CRITERIA
from gnn_depth.diagnostics.probe.readings import COLUMNS, Reading

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ACROSS = 3  # charts beside each other
DECADES = 1.5  # positive values over a wider range get a logarithmic axis
LIMIT: dict[str, Any] = {"color": "#C00000", "linestyle": "--", "linewidth": 1.0}
REMEDIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe & Ito: readable by the colour-blind


def charts(models: Sequence[tuple[str, Sequence[Reading]]]) -> str:
    """One SVG picture with a chart of each quantity over the layers; without those that have no value."""
    import matplotlib  # slow to import, and few reports draw
    from matplotlib.figure import Figure

    drawn = [symbol for symbol in COLUMNS if any(one.value(symbol) is not None for one in models[0][1])]
    rows = -(-len(drawn) // ACROSS)
    if not rows:
        return ""
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(4 * ACROSS, 2.3 * rows), layout="constrained")
        axes = figure.subplots(rows, ACROSS, squeeze=False).ravel()
        for spare in axes[len(drawn) :]:
            spare.remove()
        keys: dict[str, Any] = {}
        for one, symbol in zip(axes, drawn, strict=False):
            _chart(one, symbol, models)
            keys |= {artist.get_label(): artist for artist in one.get_lines() if artist.get_label()[0] != "_"}
        figure.legend(keys.values(), keys, loc="outside upper left", ncols=4, frameon=False)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def _chart(axes: "Axes", symbol: str, models: Sequence[tuple[str, Sequence[Reading]]]) -> None:
    """Draw a quantity over the layers; values that are not finite are marked at the bottom."""
    from matplotlib.ticker import MaxNLocator

    axes.set_title(COLUMNS[symbol][0], fontsize=10, loc="left")
    axes.set_xlabel("layer", fontsize=8)
    every: list[float] = []
    for place, (name, readings) in enumerate(models):
        known = [(reading.number, value) for reading in readings if (value := reading.value(symbol)) is not None]
        colour = REMEDIES[(place - 1) % len(REMEDIES)] if place else "black"
        layers = [layer for layer, _ in known]
        heights = [value if math.isfinite(value) else math.nan for _, value in known]
        look: dict[str, Any] = {"linewidth": 1.0} if place else {"linewidth": 1.6, "marker": "o", "markersize": 3}
        axes.plot(layers, heights, color=colour, label=name, zorder=2 if place else 3, **look)
        if lost := [layer for layer, value in known if not math.isfinite(value)]:
            bottom = axes.get_xaxis_transform()
            axes.plot(lost, [0.02] * len(lost), "x", color=colour, transform=bottom, label="not finite")
        every += [value for value in heights if math.isfinite(value)]
    if every and min(every) > 0 and math.log10(max(every) / min(every)) > DECADES:
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
    """The values beyond which a problem is reported: of the criteria that have this symbol, in the chart's unit."""
    for criterion in CRITERIA:
        if criterion.symbol == symbol:
            # Some criteria take values relative to the first or the last layer.
            pairs = zip(criterion.of(readings), (one.value(symbol) for one in readings), strict=True)
            units = [value / relative for relative, value in pairs if relative and value]
            yield from (criterion.limit * unit for unit in units[:1] if math.isfinite(unit))
