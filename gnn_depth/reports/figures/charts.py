"""The content of a figure as numbers and text. Both ``paper`` (Matplotlib) and ``page`` (Plotly)
draw these charts."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

# Okabe & Ito's palette, readable by the colour-blind, with grey for its yellow, which is lost on
# white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # Matplotlib's
SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "star",
)  # Plotly's
# On, off, on, off in line widths; the first is solid.
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (5, 1.6), (1.2, 1.4), (6, 1.6, 1.2, 1.6), (9, 2.2), (3, 1.2, 3, 3.4)),
    *((6, 1.6, 1.2, 1.6, 1.2, 1.6), (1.2, 3.2)),
)
START_DASH = (2.5, 1.5)
CENTRED = (
    0.2  # smaller extreme over larger one, by size, above which a colour scale is centred at zero
)


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    label: str  # with the unit
    ticks: tuple[
        tuple[float, str], ...
    ] = ()  # positions and names; chosen automatically where empty
    categories: bool = False  # positions are categories, which no line connects
    log: bool = False
    whole: bool = False  # only integers get ticks
    within: tuple[float, float] | None = (
        None  # outermost limits, however far bands reach: no accuracy is above 100%
    )


@dataclass(frozen=True, eq=False)
class Line:
    """Points in the order of x, NaN where there is none, and bands around them from the widest to
    the narrowest.

    A band is its low and its high edge. Lines of the same thing share their style, the number of
    colour, marker and dashes. As a part, ``start`` is thin and dotted with open markers, ``end``
    solid, ``published`` open markers alone.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    bands: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    style: int = 0
    part: Literal["whole", "start", "end", "published"] = "whole"
    notes: tuple[str, ...] = ()  # more text for hovering over each point
    note: str = ""  # and text that all points share

    def apart(self, axis: Axis) -> bool:
        """True if nothing connects the points on this x axis."""
        return axis.categories or self.part == "published"

    @property
    def dashes(self) -> tuple[float, ...]:
        """The dashes of its style, but solid for an end and dotted for a start."""
        return {"start": START_DASH, "end": ()}.get(self.part, stroke(self.style).dashes)


@dataclass(frozen=True, eq=False)
class Points:
    """Points with one marker; where the chart has a colour scale, a point without a colour (NaN) is
    open."""

    label: str
    x: np.ndarray
    y: np.ndarray
    colour: np.ndarray
    style: int = 0  # number of the marker, and of the colour in a chart without a colour scale
    notes: tuple[str, ...] = ()  # text for hovering over each point


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values at x and y, shape (y, x)."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    log10: bool = False  # the values are logarithms: -inf stands for an exact zero
    note: str = ""  # text for hovering that all cells share

    @property
    def uncoloured(self) -> dict[str, np.ndarray]:
        """Name -> mask of the values that have no place on a colour scale, for the names that
        occur."""
        zero = np.isneginf(self.values) & self.log10
        found = {"not finite": ~np.isfinite(self.values) & ~zero, "exactly zero": zero}
        return {name: where for name, where in found.items() if where.any()}


@dataclass(frozen=True, eq=False)
class Panel:
    """The content of one pair of axes."""

    title: str
    lines: tuple[Line, ...] = ()
    points: tuple[Points, ...] = ()
    map: HeatMap | None = None


class ColourScale(NamedTuple):
    """The limits of a colour scale; in a diverging one white is zero, in the middle."""

    low: float
    high: float
    diverging: bool


@dataclass(frozen=True, eq=False)
class Chart:
    """Panels that share their axes."""

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    legend: str = ""  # its title: the axes whose values the labels are
    colour: Axis | None = None  # the colour scale of points and heat maps
    caption: str = ""

    @property
    def columns(self) -> int:
        """Panels side by side: three at most."""
        return 2 if len(self.panels) == 4 else min(len(self.panels), 3)

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-len(self.panels) // self.columns)

    @property
    def colours(self) -> ColourScale:
        """From the smallest to the largest finite value, with a margin around a single one; 0 to 1
        without values.

        Heat maps whose values lie on both sides of zero get a diverging scale, symmetric around
        zero.
        """
        values = [points.colour for panel in self.panels for points in panel.points]
        values += [panel.map.values.ravel() for panel in self.panels if panel.map]
        finite = np.concatenate([part[np.isfinite(part)] for part in values] or [np.array([])])
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        largest = max(-low, high)
        if any(panel.map for panel in self.panels) and min(-low, high) > CENTRED * largest:
            return ColourScale(-largest, largest, diverging=True)
        margin = 0.0 if low < high else 0.5
        return ColourScale(low - margin, high + margin, diverging=False)


class Stroke(NamedTuple):
    """The colour, dashes and marker that distinguish a line, on paper and on a page."""

    colour: str
    marker: str
    symbol: str
    dashes: tuple[float, ...]


def stroke(style: int) -> Stroke:
    """The stroke of a style number: the first eight differ in everything, the first 64 in
    something."""
    turn, place = divmod(style, len(COLOURS))
    other = (place + turn) % len(COLOURS)
    return Stroke(COLOURS[place], MARKERS[other], SYMBOLS[other], DASHES[other])


def stretches(there: np.ndarray) -> list[slice]:
    """The stretches of consecutive places where a mask is true."""
    found: list[slice] = np.ma.clump_unmasked(np.ma.array(there, mask=~there))  # type: ignore[no-untyped-call]
    return found


def areas_and_bars(low: np.ndarray, high: np.ndarray, apart: bool) -> tuple[list[slice], list[int]]:
    """Split a band into the stretches drawn as areas and the points drawn as error bars: all, if
    points are apart."""
    found = stretches(np.isfinite(low) & np.isfinite(high))
    areas = [part for part in found if part.stop - part.start > 1 and not apart]
    return areas, [
        place for part in found if part not in areas for place in range(part.start, part.stop)
    ]


@contextmanager
def quiet() -> Iterator[None]:
    """Compute statistics of NaN and infinities without warnings."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore", over="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
