"""The content of a figure as numbers and text; `drawing` turns it into a picture."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from gnn_depth.measurements import ColourScale, colour_scale, lost_and_zero

# Okabe & Ito's palette, readable by the colour-blind, with grey for its yellow, which is lost on
# white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# On, off, on, off in line widths; the first is solid.
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (5, 1.6),
    (1.2, 1.4),
    (6, 1.6, 1.2, 1.6),
    (9, 2.2),
    (3, 1.2, 3, 3.4),
    (6, 1.6, 1.2, 1.6, 1.2, 1.6),
    (1.2, 3.2),
)
START_DASH = (2.5, 1.5)


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    label: str  # with the unit
    ticks: tuple[tuple[float, str], ...] = ()  # positions and names; automatic where empty
    categories: bool = False  # positions are categories, which no line connects
    log: bool = False
    whole: bool = False  # only integers get ticks
    # Outermost limits, however far bands reach: no accuracy is above 100%.
    within: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Line:
    """Points in the order of x, NaN where there is none, and bands around them, the widest first.

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

    def apart(self, axis: Axis) -> bool:
        """True if nothing connects the points on this x axis."""
        return axis.categories or self.part == "published"

    @property
    def dashes(self) -> tuple[float, ...]:
        """The dashes of its style, but solid for an end and dotted for a start."""
        if self.part == "start":
            return START_DASH
        if self.part == "end":
            return ()
        return stroke(self.style).dashes


@dataclass(frozen=True, eq=False)
class Points:
    """Points with one marker; where the chart has a colour scale, a NaN colour leaves them open."""

    label: str
    x: np.ndarray
    y: np.ndarray
    colour: np.ndarray
    style: int = 0  # number of the marker, and of the colour in a chart without a colour scale


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Values at x and y, shape (y, x)."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    log10: bool = False  # the values are logarithms: -inf stands for an exact zero
    around_zero: bool = False  # zero is white, between blue and red

    @property
    def uncoloured(self) -> dict[str, np.ndarray]:
        """Masks of the values that have no place on a colour scale, by name; no empty ones."""
        # The logarithm of an exact zero is no error, and is drawn otherwise than one.
        lost, zero = lost_and_zero(self.values, self.log10)
        found = {}
        if lost.any():
            found["not finite"] = lost
        if zero.any():
            found["exactly zero"] = zero
        return found


@dataclass(frozen=True, eq=False)
class Panel:
    """The content of one pair of axes."""

    title: str
    lines: tuple[Line, ...] = ()
    points: tuple[Points, ...] = ()
    map: HeatMap | None = None


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
        if len(self.panels) == 4:
            return 2
        return min(len(self.panels), 3)

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-len(self.panels) // self.columns)

    @property
    def colours(self) -> ColourScale:
        """The one scale of all points and heat maps."""
        parts = [np.array([])]  # a chart of lines has no coloured parts
        around_zero = False
        for panel in self.panels:
            parts += [points.colour for points in panel.points]
            if panel.map:
                around_zero = panel.map.around_zero
                parts.append(panel.map.values.ravel())
        return colour_scale(np.concatenate(parts), around_zero)


class Stroke(NamedTuple):
    """The colour, marker and dashes that distinguish a line."""

    colour: str
    marker: str
    dashes: tuple[float, ...]


def stroke(style: int) -> Stroke:
    """The stroke of a style number: the first eight differ in everything, 64 in something."""
    turn, place = divmod(style, len(COLOURS))
    other = (place + turn) % len(COLOURS)
    return Stroke(COLOURS[place], MARKERS[other], DASHES[other])
