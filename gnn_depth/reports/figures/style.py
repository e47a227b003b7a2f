"""Colours, markers and dashes that survive colour blindness, grey print and a narrow column."""

from dataclasses import dataclass
from typing import Any

# Okabe & Ito's palette with grey for its yellow, which is lost on white paper; neighbours differ in lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES = (
    (),
    (5, 1.6),
    (1.2, 1.4),
    (6, 1.6, 1.2, 1.6),
    (9, 2.2),
    (3, 1.2, 3, 3.4),
    (6, 1.6, 1.2, 1.6, 1.2, 1.6),
    (1.2, 3.2),
)  # on, off, on, off in line widths; none is solid
START_DASH = (2.5, 1.5)

MAP = "viridis"
NOT_FINITE = "#D9D9D9"

COLUMN, PAGE = 3.5, 7.2  # inches: one column and the whole width of a two-column page
PANEL_HEIGHT = 2.35
FONT = 8.5
DPI = 200

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.labelsize": FONT,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.title_fontsize": 8.0,
    "axes.linewidth": 0.7,
    "axes.grid": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3
    "text.parse_math": False,  # a dollar in a label is a dollar
}


@dataclass(frozen=True)
class Stroke:
    """How one line is told from the others, on paper and on a page."""

    colour: str
    marker: str
    symbol: str
    dashes: tuple[float, ...]


def stroke(style: int) -> Stroke:
    """The stroke of the line with a number; the first eight differ in everything, all below 64 in something."""
    turn, place = divmod(style, len(COLOURS))
    other = (place + turn) % len(COLOURS)
    return Stroke(COLOURS[place], MARKERS[other], SYMBOLS[other], DASHES[other])


def line_dashes(part: str, pen: Stroke) -> tuple[float, ...]:
    """Dashes of a line: its own, but solid for an end and dotted for a start, see `Line.part`."""
    return {"start": START_DASH, "end": ()}.get(part, pen.dashes)


def css_dash(dashes: tuple[float, ...]) -> str:
    """Dashes as Plotly takes them, in pixels of a line two wide."""
    return ",".join(f"{2 * length:g}px" for length in dashes) or "solid"
