"""Pages for a browser that need no other file and no library: text, tables, and small charts drawn as SVG."""

import html
import math
import re
from collections.abc import Sequence

from gnn_depth.reports.sheet import Entry, Sheet

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px; padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.3rem; }}
p {{ line-height: 1.45; color: #444; }}
p.said {{ margin: 0.35rem 0; color: #222; overflow-wrap: anywhere; }}
code {{ white-space: nowrap; font-size: 0.95em; }}
.charts {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(270px, 1fr)); gap: 0.6rem; margin: 1rem 0; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; margin: 1rem 0; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }}
th {{ border-bottom: 1px solid #444; }}
.label {{ text-align: left; }}
tr:nth-child(even) td {{ background: #F5F5F5; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 290, 170, 52, 10, 26, 24  # pixels
COLOUR, NOT_FINITE = "#0072B2", "#D55E00"
JOIN = "\xa0"  # a space that does not break
OPTION = re.compile(r"(?<!\S)--[^\s,]+(?:\xa0[^\s,]+)*")
DECADES = 1.5  # a wider range than this many powers of ten is drawn by powers of ten


def web_page(title: str, body: str) -> str:
    """A page.

    Args:
        title: Its heading, as text.
        body: What stands below, as HTML.
    """
    return PAGE.format(title=html.escape(title), body=body)


def paragraph(text: str) -> str:
    """A paragraph of text; words of a command line, joined by spaces that do not break, stay on a line to be copied."""
    said = OPTION.sub(lambda found: f"<code>{found[0]}</code>".replace(JOIN, " "), html.escape(text))
    return f'<p class="said">{said}</p>'


def table(sheet: Sheet) -> str:
    """A sheet as a table, with its notes below; the heading is the page's."""
    head = "".join(_cell("th", Entry(name), column < sheet.labels) for column, name in enumerate(sheet.head))
    rows = [
        "<tr>" + "".join(_cell("td", entry, column < sheet.labels) for column, entry in enumerate(line)) + "</tr>"
        for line in sheet.lines
    ]
    notes = f"<p>{'<br>'.join(map(html.escape, sheet.notes))}</p>" if sheet.notes else ""
    body = "\n".join(rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>\n{notes}'


def _cell(tag: str, entry: Entry, is_label: bool) -> str:
    text = html.escape(entry.text + entry.mark) + (f"<br>{html.escape(entry.note)}" if entry.note else "")
    text = f"<b>{text}</b>" if entry.best else text
    return f'<{tag} class="label">{text}</{tag}>' if is_label else f"<{tag}>{text}</{tag}>"


def chart(title: str, numbers: Sequence[int], values: Sequence[float | None]) -> str:
    """A small chart of a value at every layer; nothing where no layer has one.

    The axis goes by powers of ten where all values are positive and far apart. Values that are not finite are marked
    on the axis below.

    Args:
        title: Stands above.
        numbers: Of the layers.
        values: One of each; None where there is none.
    """
    known = [(n, v) for n, v in zip(numbers, values, strict=True) if v is not None]
    if not known:
        return ""
    finite = [v for _, v in known if math.isfinite(v)]
    by_powers = bool(finite) and min(finite) > 0 and math.log10(max(finite) / min(finite)) > DECADES
    heights = [(n, math.log10(v) if by_powers and math.isfinite(v) else v) for n, v in known]
    scale = _Scale(numbers[0], numbers[-1], [h for _, h in heights if math.isfinite(h)])
    marks = [_mark(scale, n, h) for n, h in heights]
    ticks = [_tick(scale, height, f"{10**height:.0e}" if by_powers else f"{height:.3g}") for height in scale.ticks()]
    ends = [_layer(scale, n) for n in dict.fromkeys((numbers[0], numbers[-1]))]
    name = html.escape(title)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name} of every layer" '
        'font-family="system-ui, sans-serif" font-size="10" fill="#444">'
        f'<text x="{LEFT}" y="15" font-size="12" font-weight="bold" fill="#222">{name}</text>'
        f"{''.join([*ticks, *ends, *_lines(scale, heights), *marks])}</svg>"
    )


class _Scale:
    """From layers and heights to pixels.

    Args:
        first, last: Numbers of the layers at the ends.
        heights: All that are finite.
    """

    def __init__(self, first: int, last: int, heights: Sequence[float]) -> None:
        self.first, self.last = first, max(last, first + 1)
        self.low, self.high = (min(heights), max(heights)) if heights else (0.0, 1.0)
        if self.high - self.low <= 1e-9 * max(abs(self.low), abs(self.high)):
            half = abs(self.low) / 2 or 0.5
            self.low, self.high = self.low - half, self.high + half

    def x(self, number: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (number - self.first) / (self.last - self.first)

    def y(self, height: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (height - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """The ends of the axis, and its middle."""
        return [self.low, (self.low + self.high) / 2, self.high]


def _lines(scale: _Scale, heights: Sequence[tuple[int, float]]) -> list[str]:
    """Lines through neighbours that are finite."""
    stretches: list[list[str]] = [[]]
    for number, height in heights:
        if math.isfinite(height):
            stretches[-1].append(f"{scale.x(number):.1f},{scale.y(height):.1f}")
        else:
            stretches.append([])
    pen = f'fill="none" stroke="{COLOUR}" stroke-width="1.6"'
    return [f'<polyline points="{" ".join(points)}" {pen}/>' for points in stretches if len(points) > 1]


def _mark(scale: _Scale, number: int, height: float) -> str:
    """A point, with what hovering over it says."""
    at = scale.y(height) if math.isfinite(height) else HEIGHT - BOTTOM
    colour = COLOUR if math.isfinite(height) else NOT_FINITE
    said = f"layer {number}" if math.isfinite(height) else f"layer {number}: not finite"
    return f'<circle cx="{scale.x(number):.1f}" cy="{at:.1f}" r="1.8" fill="{colour}"><title>{said}</title></circle>'


def _tick(scale: _Scale, height: float, text: str) -> str:
    y = scale.y(height)
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#E5E5E5"/>'
    return f'{line}<text x="{LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{html.escape(text)}</text>'


def _layer(scale: _Scale, number: int) -> str:
    return f'<text x="{scale.x(number):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{number}</text>'
