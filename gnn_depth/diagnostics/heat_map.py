"""Heat map of a measure: steps to the right, layers upwards, values as colours."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, UInt8

from gnn_depth import measurements
from gnn_depth.measurements import MeasureValues

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Columns of colours: steps that share one are averaged, so a long training is drawn as fast as any.
WIDTH = 384
FONT = 13  # TensorBoard shows the picture at two thirds of its size
LAYERS_NAMED = 8
ZERO, LOST = "black", "0.6"


def heat_map(measured: MeasureValues) -> "Figure":
    """Draw a measure over steps and layers, with axes and a colour bar, as a Matplotlib figure that
    is independent of pyplot.

    Colours span the range of the values; a measure around zero goes from blue over white, which is
    zero, to red. The logarithm of an exact zero is black and a value that is not finite is grey.
    Where several steps share a column, its colour is that of their mean, and grey if any of them is
    not finite.

    Args:
        measured: Values of layers, at one step at least.
    """
    # Slow to import, and few commands draw.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.ticker import MaxNLocator

    edges = measurements.edges(measured.steps)
    cells = _columns(edges, measured.values.astype(float)).T
    count = len(cells)
    name, low, high = measurements.colour_scale(cells, measured.around_zero)
    scale = ScalarMappable(Normalize(low, high), name)
    colours = scale.to_rgba(np.ma.masked_invalid(cells))
    lost, zero = measurements.lost_and_zero(cells, measured.log10)
    keys = []  # of the colours that are not on the colour bar
    for where, colour, label in (
        (lost, LOST, "not finite, or missing"),
        (zero, ZERO, "exactly zero"),
    ):
        colours[where] = to_rgba(colour)
        if where.any():
            keys.append(Patch(color=colour, label=label))
    figure = Figure(figsize=(5.4, 4.4), dpi=100)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.13, 0.22, 0.65, 0.69))
    bar = figure.add_axes((0.81, 0.22, 0.03, 0.69))
    extent = (edges[0], edges[-1], -0.5, count - 0.5)
    axes.imshow(colours, extent=extent, origin="lower", aspect="auto", interpolation="nearest")
    figure.colorbar(scale, cax=bar)
    bar.minorticks_off()
    if keys:
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.11, 0.0), "ncols": 2}
        figure.legend(handles=keys, frameon=False, fontsize=FONT, handlelength=1, **place)
    title = f"log₁₀ {measured.unit}" if measured.log10 else measured.unit
    axes.set_title(title, fontsize=FONT, loc="left", parse_math=False)
    axes.set_xlabel("step", fontsize=FONT, labelpad=2)
    axes.set_ylabel("layer", fontsize=FONT, labelpad=2)
    axes.tick_params(labelsize=FONT)
    bar.tick_params(labelsize=FONT)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    places = np.unique(np.linspace(0, count - 1, min(count, LAYERS_NAMED)).round().astype(int))
    axes.set_yticks(places, labels=[str(measured.layers[place]) for place in places])
    return figure


def pixels(figure: "Figure") -> UInt8[np.ndarray, "height width 3"]:
    """A figure as an array of colours."""
    canvas: Any = figure.canvas
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3]


def _columns(
    edges: Float[np.ndarray, "edges"], values: Float[np.ndarray, "steps layers"]
) -> Float[np.ndarray, "columns layers"]:
    """The mean of the steps whose time overlaps a column; infinite or NaN if one of them is."""
    borders = np.linspace(edges[0], edges[-1], WIDTH + 1)
    first = np.searchsorted(edges[1:-1], borders[:-1], side="right")
    last = np.searchsorted(edges[1:-1], borders[1:], side="left")
    # In a short training most columns lie within one step: only the others take a mean.
    columns = values[first]
    with np.errstate(invalid="ignore", over="ignore"):
        for place in np.flatnonzero(first < last):
            columns[place] = values[first[place] : last[place] + 1].mean(axis=0)
    return columns
