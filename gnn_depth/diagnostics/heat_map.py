"""Heat map of a measure: steps to the right, layers upwards, values as colours."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from gnn_depth.measurements import MeasureValues, colour_scale, edges, lost_and_zero

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 384  # columns of colours, so that a long training is drawn as fast as any
FONT = 13  # TensorBoard shows the picture at two thirds of its size
ZERO, LOST = "black", "0.6"


def heat_map(measured: MeasureValues, recent: int | None = None) -> "Figure":
    """Draw a measure over steps and layers, with axes and a colour bar, as a Matplotlib figure that
    is independent of pyplot.

    Colours span the range of the values. If one layer, or at most a tenth of them, lies more than
    three interquartile ranges from the quartiles, it does not hide the others: arrows of the colour
    bar stand for it. A
    measure around zero goes from blue over white, which is zero, to red. The logarithm of an exact
    zero is black and a value that is not finite is grey.
    Where several steps share a column, its colour is that of their mean, and grey if any of them is
    not finite.

    Args:
        measured: Values of layers, at one step at least.
        recent: Let colours span the values of so many last steps; others get the nearest colour.
    """
    # Slow to import, and few commands draw.
    from matplotlib import colormaps, rc_context
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    count = len(measured.steps)
    starts = np.unique(np.linspace(0, count, WIDTH, endpoint=False).astype(int))
    sizes = np.diff([*starts, count])
    with np.errstate(invalid="ignore", over="ignore"):
        cells = np.add.reduceat(measured.values.astype(float), starts).T / sizes
    spanned = cells
    if recent:
        spanned = measured.values[-recent:].T
    finite = np.isfinite(spanned)
    if finite.any():
        first, third = np.percentile(spanned[finite], (25, 75))
        near = spanned.clip(4 * first - 3 * third, 4 * third - 3 * first)
        is_far = ((near != spanned) & finite).any(1)  # of each layer
        if first < third and is_far.sum() <= max(1, len(is_far) // 10):
            spanned = near[finite]
    name, low, high = colour_scale(spanned, measured.around_zero)
    lost, zero = lost_and_zero(cells, measured.log10)
    # A zero is drawn as something below the scale.
    shown = np.ma.masked_array(np.where(zero, low - 1, cells.clip(low, high)), lost)
    with rc_context({"font.size": FONT, "axes.titlesize": FONT}):
        figure = Figure(figsize=(5.4, 4.4), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        mesh = axes.pcolormesh(
            edges(measured.steps)[[*starts, -1]],
            edges(measured.layers),
            shown,
            cmap=colormaps[name].with_extremes(under=ZERO, bad=LOST),
            vmin=low,
            vmax=high,
        )
        is_clipped = np.isfinite(cells) & (cells != cells.clip(low, high))
        # Not of the mesh, whose colour below the scale is that of zeros.
        colours = ScalarMappable(mesh.norm, name)
        title = f"log₁₀ {measured.unit}" if measured.log10 else measured.unit
        bar = figure.colorbar(colours, ax=axes, extend="both" if is_clipped.any() else "neither")
        bar.set_label(title, parse_math=False)
        named = {LOST: (lost, "not finite, or missing"), ZERO: (zero, "exactly 0")}
        for colour, (where, label) in named.items():
            if where.any():
                axes.scatter([], [], marker="s", color=colour, label=label)
        if lost.any() or zero.any():
            figure.legend(loc="outside lower left", frameon=False, ncols=2)
        axes.set_title(measured.name.replace("_", " "), loc="left", parse_math=False)
        first, last = measured.steps[[0, -1]]
        axes.set(xlabel="step", ylabel="layer", xlim=(first - 0.5, last + 0.5))
        for axis, most in ((axes.xaxis, 5), (axes.yaxis, 8)):
            axis.set_major_locator(MaxNLocator(most, integer=True, min_n_ticks=1))
    return figure


def pixels(figure: "Figure") -> UInt8[np.ndarray, "height width 3"]:
    """A figure as an array of colours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]
