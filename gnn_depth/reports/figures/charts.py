"""The content of a figure as numbers and text. Both ``paper`` (Matplotlib) and ``page`` (Plotly) draw these charts."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np

# Okabe & Ito's palette, readable by the colour-blind, with grey for its yellow, which is lost on white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")  # Matplotlib's
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")  # Plotly's
# On, off, on, off in line widths; the first is solid.
DASHES: tuple[tuple[float, ...], ...] = (
    *((), (5, 1.6), (1.2, 1.4), (6, 1.6, 1.2, 1.6), (9, 2.2), (3, 1.2, 3, 3.4)),
    *((6, 1.6, 1.2, 1.6, 1.2, 1.6), (1.2, 3.2)),
)
START_DASH = (2.5, 1.5)
CENTRED = 0.2  # smaller extreme over larger one, by size, above which a colour scale is centred at zero


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Attributes:
        label: Its label, with the unit.
        ticks: Positions and names of the ticks; chosen automatically where empty.
        categories: True if positions are categories, which no line connects.
        log: True for a logarithmic scale.
        whole: True if only integers get ticks.
        within: Outermost limits, however far bands reach: no accuracy is above 100%.
    """

    label: str
    ticks: tuple[tuple[float, str], ...] = ()
    categories: bool = False
    log: bool = False
    whole: bool = False
    within: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Line:
    """Points in the order of x, NaN where there is none, and bands around them from the widest to the narrowest.

    Attributes:
        label: Its name in the legend.
        bands: The low and the high edge of each, NaN where there is none.
        style: Number of its colour, marker and dashes; equal for lines of the same thing.
        part: ``start``, thin, dotted and with open markers; ``end``, solid; ``published``, open markers without a line.
        notes: More text for hovering over each point.
        note: More text for hovering that all points share.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    bands: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    style: int = 0
    part: Literal["whole", "start", "end", "published"] = "whole"
    notes: tuple[str, ...] = ()
    note: str = ""

    def apart(self, axis: Axis) -> bool:
        """True if nothing connects the points on this x axis."""
        return axis.categories or self.part == "published"

    @property
    def dashes(self) -> tuple[float, ...]:
        """The dashes of its style, but solid for an end and dotted for a start."""
        return {"start": START_DASH, "end": ()}.get(self.part, stroke(self.style).dashes)


@dataclass(frozen=True, eq=False)
class Points:
    """Points with one marker.

    Attributes:
        label: Their name in the legend.
        colour: A value for each point, NaN for an open marker; without a colour axis the style gives the colour.
        style: Number of the marker and the colour.
        notes: Text for hovering over each point.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    colour: np.ndarray
    style: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values at x and y, shape (y, x).

    Attributes:
        log10: True if the values are logarithms, where -inf is the logarithm of an exact zero.
        note: Text for hovering that all cells share.
    """

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    log10: bool = False
    note: str = ""

    @property
    def uncoloured(self) -> dict[str, np.ndarray]:
        """Name -> mask of the values that have no place on a colour scale, for the names that occur."""
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


@dataclass(frozen=True, eq=False)
class Chart:
    """Panels that share their axes.

    Attributes:
        legend: Title of the legend: the axes whose values the labels are.
        colour: The colour scale of points and heat maps, if there is one.
        caption: Sentences below the panels.
    """

    x: Axis
    y: Axis
    panels: tuple[Panel, ...]
    legend: str = ""
    colour: Axis | None = None
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
    def diverging(self) -> bool:
        """True for heat maps whose values lie on both sides of zero: white is zero, in the middle of the scale."""
        low, high = self._extremes
        return any(panel.map for panel in self.panels) and min(-low, high) > CENTRED * max(-low, high)

    @property
    def colour_range(self) -> tuple[float, float]:
        """The smallest and largest finite value, with a margin around a single value; 0 to 1 without values.

        A diverging scale is symmetric around zero.
        """
        low, high = self._extremes
        if self.diverging:
            return -max(-low, high), max(-low, high)
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    @property
    def _extremes(self) -> tuple[float, float]:
        values = [points.colour for panel in self.panels for points in panel.points]
        values += [panel.map.values.ravel() for panel in self.panels if panel.map]
        finite = np.concatenate([part[np.isfinite(part)] for part in values] or [np.array([])])
        return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


@dataclass(frozen=True)
class Stroke:
    """The colour, dashes and marker that distinguish a line, on paper and on a page."""

    colour: str
    marker: str
    symbol: str
    dashes: tuple[float, ...]


def stroke(style: int) -> Stroke:
    """The stroke of a style number: the first eight differ in everything, the first 64 in something."""
    turn, place = divmod(style, len(COLOURS))
    other = (place + turn) % len(COLOURS)
    return Stroke(COLOURS[place], MARKERS[other], SYMBOLS[other], DASHES[other])


def stretches(there: np.ndarray) -> list[slice]:
    """The stretches of consecutive places that are present.

    Args:
        there: Booleans, shape (places,).
    """
    found: list[slice] = np.ma.clump_unmasked(np.ma.array(there, mask=~there))  # type: ignore[no-untyped-call]
    return found


def areas_and_bars(low: np.ndarray, high: np.ndarray, apart: bool) -> tuple[list[slice], list[int]]:
    """Split a band into the stretches drawn as areas and the single points drawn as error bars.

    Args:
        low, high: Its edges, NaN where there is none.
        apart: Nothing connects the points: all are bars.
    """
    found = stretches(np.isfinite(low) & np.isfinite(high))
    areas = [part for part in found if part.stop - part.start > 1 and not apart]
    return areas, [place for part in found if part not in areas for place in range(part.start, part.stop)]


@contextmanager
def quiet() -> Iterator[None]:
    """Compute statistics of NaN and infinities without warnings."""
    with warnings.catch_warnings(), np.errstate(invalid="ignore", over="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
