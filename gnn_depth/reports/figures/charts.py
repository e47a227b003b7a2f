"""What a figure shows, as numbers and words: paper and page draw the same charts and read nothing else."""

from dataclasses import dataclass
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Attributes:
        label: What it says, with the unit.
        ticks: Places and their names, for categories and for values that are few; chosen by the drawer where empty.
        categories: Whether the ticks are names without distances, which no line connects.
        log: Whether it is drawn with a logarithmic scale.
        whole: Whether only whole numbers are ticked.
        within: Where the axis ends at the latest, whatever bands reach beyond: no accuracy is above 100%.
    """

    label: str
    ticks: tuple[tuple[float, str], ...] = ()
    categories: bool = False
    log: bool = False
    whole: bool = False
    within: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Band:
    """What lies around a line, from low to high at each of its points; NaN where there is nothing."""

    low: np.ndarray
    high: np.ndarray

    def stretches(self, apart: bool) -> list[slice]:
        """Where it has both edges, see `stretches`."""
        return stretches(np.isfinite(self.low) & np.isfinite(self.high), apart)


@dataclass(frozen=True, eq=False)
class Line:
    """Points in the order of x, NaN where there is nothing, and the bands around them from the widest to the narrowest.

    Attributes:
        label: Its name in the legend.
        style: Which colour, marker and dashes; lines of the same style are of the same thing.
        part: ``start``, drawn thin, dotted and with open markers, or ``end``, solid, of something that has both;
            ``published``, open markers alone, of another's numbers beside ours.
        notes: What hovering over each point says.
        note: What hovering over any of them says besides.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    bands: tuple[Band, ...] = ()
    style: int = 0
    part: Literal["whole", "start", "end", "published"] = "whole"
    notes: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, eq=False)
class LinePanel:
    """Lines that share their axes."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, eq=False)
class Lines:
    """Panels of lines with shared axes; ``legend`` says what the lines' labels are values of."""

    x: Axis
    y: Axis
    panels: tuple[LinePanel, ...]
    legend: str = ""
    caption: str = ""


@dataclass(frozen=True, eq=False)
class MapPanel:
    """Values at x and y, shape (y, x); NaN and infinity are not finite, -inf is the logarithm of an exact zero.

    Attributes:
        note: What hovering says besides the values.
    """

    title: str
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    note: str = ""


@dataclass(frozen=True, eq=False)
class Maps:
    """Panels of heat maps with one colour scale; where ``zeros`` is set, -inf is the logarithm of an exact zero."""

    x: Axis
    y: Axis
    colour: Axis
    panels: tuple[MapPanel, ...]
    zeros: bool = False
    caption: str = ""


@dataclass(frozen=True, eq=False)
class Cloud:
    """Points of one marker with a colour each, NaN for a point that has no colour."""

    label: str
    x: np.ndarray
    y: np.ndarray
    colour: np.ndarray
    style: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class CloudPanel:
    """Clouds that share their axes."""

    title: str
    clouds: tuple[Cloud, ...]


@dataclass(frozen=True, eq=False)
class Clouds:
    """Panels of scattered points with shared axes and one colour scale; without one, clouds differ in their colour."""

    x: Axis
    y: Axis
    colour: Axis | None
    panels: tuple[CloudPanel, ...]
    legend: str = ""
    caption: str = ""


Chart = Lines | Maps | Clouds


def grid(panels: int) -> tuple[int, int]:
    """Columns and rows of a figure: up to three panels side by side."""
    columns = 2 if panels == 4 else min(panels, 3)
    return columns, -(-panels // columns)


def stretches(there: np.ndarray, apart: bool = False) -> list[slice]:
    """The stretches of neighbouring places that are there.

    Args:
        there: Booleans, shape (places,).
        apart: Whether every place stands for itself, as on an axis of categories.
    """
    if apart:
        return [slice(int(place), int(place) + 1) for place in np.flatnonzero(there)]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], there.astype(int), [0]])))
    return [slice(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def cell_edges(centres: np.ndarray) -> np.ndarray:
    """Edges of a heat map's cells: midway between neighbours, and as far beyond the first and last."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def colour_range(values: list[np.ndarray]) -> tuple[float, float]:
    """The smallest and the largest finite value; a single value gets room around it, and none at all gives 0 to 1."""
    flat = np.concatenate([np.ravel(part) for part in values]) if values else np.array([])
    finite = flat[np.isfinite(flat)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def positive_range(values: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest finite value where all are positive, otherwise 0 and 0."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if len(finite) and finite.min() > 0 else (0.0, 0.0)
