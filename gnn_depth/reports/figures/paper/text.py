"""How much room text takes, before it is drawn."""

import textwrap

POINT = 1 / 72  # inches
LETTER = 0.56  # mean width of a letter of DejaVu Sans, in font sizes


def width_of(text: str, size: float) -> float:
    """Width of a line of text, in inches."""
    return len(text) * LETTER * size * POINT


def height_of(lines: int, size: float) -> float:
    """Height of lines of text, in inches."""
    return lines * 1.25 * size * POINT


def wrapped(text: str, width: float, size: float) -> list[str]:
    """Text in lines of a width in inches; a word that is wider is not broken."""
    return textwrap.wrap(text, max(12, int(width / width_of("x", size))), break_long_words=False)
