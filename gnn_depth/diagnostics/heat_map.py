"""A measure as a picture: steps to the right, layers upwards, values as colours."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from gnn_depth.measurements import Measurement

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT, TALLEST = 384, 320, 80  # pixels of the map, and of a layer at most; a layer has at least one
LEFT, TOP, RIGHT, BOTTOM, LEGEND = 60, 34, 92, 58, 28  # pixels around it, and for the legend below
BAR, KEY, TICK = 16, 16, 5
FONT = 18  # TensorBoard shows the picture at two thirds of its size
LAYERS_NAMED, TICKS = 8, 5
TINY = 1e-300

VIRIDIS = ("440154", "472d7b", "3b528b", "2c728e", "21918c", "28ae80", "5ec962", "addc30", "fde725")
BLUE_TO_RED = ("2166ac", "4393c3", "92c5de", "d1e5f0", "f7f7f7", "fddbc7", "f4a582", "d6604d", "b2182b")  # ColorBrewer
ZERO, STRIPES, INK, PAPER = (0, 0, 0), ((217, 217, 217), (140, 140, 140)), (0, 0, 0), 255


def heat_map(measurement: Measurement) -> UInt8[np.ndarray, "height width 3"]:
    """Draw a measure over steps and layers, with axes and a scale of colours.

    Logarithms and what is never negative go from dark to bright. What has both signs goes from blue over white, which
    is zero, to red. The logarithm of an exact zero is black, and what is not finite is striped; where several steps
    share a pixel, its colour is that of their mean, and a single value that is not finite makes it striped.

    Args:
        measurement: Has a step at least; of neurons their mean is drawn.
    """
    from PIL import Image, ImageDraw, ImageFont  # slow to import, and few commands draw

    values = measurement.values if measurement.values.ndim == 2 else measurement.values.mean(axis=2)
    edges = _edges(measurement.steps)
    cells = _pixels(edges, values.astype(float)).T[::-1]  # the first layer below
    low, high, colours = _scale(values, measurement.log10)
    zero = np.isneginf(cells) & measurement.log10
    lost = ~np.isfinite(cells) & ~zero
    rows = min(TALLEST, max(1, HEIGHT // len(cells)))
    height = rows * len(cells)
    canvas = np.full((TOP + height + BOTTOM + LEGEND, LEFT + WIDTH + RIGHT, 3), PAPER, dtype=np.uint8)
    canvas[TOP : TOP + height, LEFT : LEFT + WIDTH] = np.repeat(_paint(cells, low, high, colours, zero), rows, axis=0)
    _stripe(canvas[TOP : TOP + height, LEFT : LEFT + WIDTH], np.repeat(lost, rows, axis=0))
    key = slice(TOP + height + BOTTOM + 4, TOP + height + BOTTOM + 4 + KEY)
    _stripe(canvas[key, LEFT : LEFT + KEY], np.full((KEY, KEY), lost.any()))
    bar = LEFT + WIDTH + 16
    canvas[TOP : TOP + height, bar : bar + BAR] = _ramp(colours, height)[::-1, None]
    image = Image.fromarray(canvas)
    pen = ImageDraw.Draw(image)
    pen.font = ImageFont.load_default(FONT)
    _name_axes(pen, measurement, height, edges)
    _name_colours(pen, height, bar + BAR, low, high)
    _name_marks(pen, key.start, lost.any(), zero.any())
    return np.asarray(image)


def _edges(steps: Int[np.ndarray, "steps"]) -> Float[np.ndarray, "edges"]:
    """Where the time of each step begins and ends: midway to its neighbours, and as far beyond the first and last."""
    if len(steps) == 1:
        return np.array([steps[0] - 0.5, steps[0] + 0.5])
    middle = (steps[1:] + steps[:-1]) / 2
    return np.concatenate([[2 * steps[0] - middle[0]], middle, [2 * steps[-1] - middle[-1]]])


def _pixels(
    edges: Float[np.ndarray, "edges"], values: Float[np.ndarray, "steps layers"]
) -> Float[np.ndarray, "pixels layers"]:
    """The mean of the steps whose time a pixel meets; infinite or NaN if one of them is."""
    borders = np.linspace(edges[0], edges[-1], WIDTH + 1)
    first = np.searchsorted(edges[1:-1], borders[:-1], side="right")
    last = np.searchsorted(edges[1:-1], borders[1:], side="left")
    pixels = values[first]
    with np.errstate(invalid="ignore", over="ignore"):
        for place in np.flatnonzero(first < last):
            pixels[place] = values[first[place] : last[place] + 1].mean(axis=0)
    return pixels


def _scale(values: np.ndarray, log10: bool) -> tuple[float, float, Sequence[str]]:
    """The values of the first and the last colour, and the colours."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    largest = max(abs(low), abs(high), TINY)
    if low < 0 and not log10:
        return -largest, largest, BLUE_TO_RED
    if high - low > 1e-9 * largest:
        return low, high, VIRIDIS
    half = largest / 2 if low or high else 0.5
    return low - half, high + half, VIRIDIS  # a single value has the middle of the scale


def _ramp(colours: Sequence[str], length: int) -> UInt8[np.ndarray, "length 3"]:
    """Colours that run through some given ones."""
    known = np.array([list(bytes.fromhex(colour)) for colour in colours], dtype=float)
    places = np.linspace(0, len(known) - 1, length)
    return np.stack([np.interp(places, np.arange(len(known)), part) for part in known.T], 1).round().astype(np.uint8)


def _paint(
    cells: np.ndarray, low: float, high: float, colours: Sequence[str], zero: Bool[np.ndarray, "layers pixels"]
) -> UInt8[np.ndarray, "layers pixels 3"]:
    """The colour of every value."""
    there = np.where(np.isfinite(cells), cells, low)
    place = np.clip((there / 2 - low / 2) / (high / 2 - low / 2), 0, 1)  # halves: the difference may be infinite
    painted = _ramp(colours, 256)[(255 * place).round().astype(int)]
    painted[zero] = ZERO
    return painted


def _stripe(picture: UInt8[np.ndarray, "height width 3"], where: Bool[np.ndarray, "height width"]) -> None:
    """Cover a part of a picture with stripes."""
    y, x = np.nonzero(where)
    picture[y, x] = np.array(STRIPES, dtype=np.uint8)[(x + y) // 4 % 2]


def _name_axes(pen: "ImageDraw", measurement: Measurement, height: int, edges: np.ndarray) -> None:
    """The title, layers to the left and steps below."""
    log10 = "log10 " if measurement.log10 else ""
    pen.text((LEFT, TOP / 2), f"{measurement.name}: {log10}{measurement.unit}", INK, anchor="lm")
    pen.text((2, TOP / 2), "layer", INK, anchor="lm")
    count = len(measurement.layers)
    for place in np.linspace(0, count - 1, min(count, LAYERS_NAMED)).round().astype(int):
        y = TOP + height * (1 - (place + 0.5) / count)
        pen.line((LEFT - TICK, y, LEFT - 1, y), INK)
        pen.text((LEFT - TICK - 3, y), str(measurement.layers[place]), INK, anchor="rm")
    low, high = edges[0], edges[-1]
    for tick in ticks(low, high, whole=True):
        x = LEFT + WIDTH * (tick - low) / (high - low)
        pen.line((x, TOP + height, x, TOP + height + TICK), INK)
        pen.text((x, TOP + height + TICK + 2), f"{tick:.0f}", INK, anchor="ma")
    pen.text((LEFT + WIDTH / 2, TOP + height + BOTTOM - 4), "step", INK, anchor="mb")


def _name_colours(pen: "ImageDraw", height: int, x: int, low: float, high: float) -> None:
    for tick in ticks(low, high):
        y = TOP + height - 1 - (height - 1) * (tick / 2 - low / 2) / (high / 2 - low / 2)
        pen.line((x, y, x + TICK, y), INK)
        pen.text((x + TICK + 3, y), f"{tick:.4g}", INK, anchor="lm")


def _name_marks(pen: "ImageDraw", y: int, lost: bool, zero: bool) -> None:
    """A legend of what has no colour on the scale, where there is any."""
    if lost:
        pen.text((LEFT + KEY + 8, y + KEY / 2), "not finite, or not there", INK, anchor="lm")
    if zero:
        x = LEFT + 240
        pen.rectangle((x, y, x + KEY, y + KEY), ZERO)
        pen.text((x + KEY + 8, y + KEY / 2), "exactly zero", INK, anchor="lm")


def ticks(low: float, high: float, whole: bool = False, count: int = TICKS) -> list[float]:
    """Round numbers between two, about as many as wanted: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high / count - low / count) or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    step = max(step, 1.0) if whole else step
    first, last = math.ceil(low / step), math.floor(high / step)
    return [place * step for place in range(first, last + 1)]
