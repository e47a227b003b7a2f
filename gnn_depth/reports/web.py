"""Pages for a browser that need no other file and no network."""

import html
import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

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
p.text {{ margin: 0.35rem 0; color: #222; overflow-wrap: anywhere; }}
code {{ white-space: nowrap; font-size: 0.95em; }}
svg {{ width: 100%; height: auto; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; margin: 1rem 0; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }}
th {{ border-bottom: 1px solid #444; }}
th:first-child, td:first-child {{ text-align: left; }}
tr:nth-child(even) td {{ background: #F5F5F5; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""
JOIN = "\N{NO-BREAK SPACE}"
OPTION = re.compile(r"(?<!\S)--[^\s,]+(?:\xa0[^\s,]+)*")
COLUMNS = 4  # of charts
DECADES = 1.5  # positive values over a wider range get a logarithmic axis


def web_page(title: str, body: str) -> str:
    """A whole page.

    Args:
        title: Its heading, as text.
        body: Everything below the heading, as HTML.
    """
    return PAGE.format(title=html.escape(title), body=body)


def paragraph(text: str) -> str:
    """A paragraph of text. Options joined by no-break spaces become code that can be copied."""
    marked = OPTION.sub(lambda found: f"<code>{found[0]}</code>".replace(JOIN, " "), html.escape(text))
    return f'<p class="text">{marked}</p>'


def layer_charts(layers: Sequence[int], curves: Mapping[str, Sequence[float | None]]) -> str:
    """One SVG picture with a small chart of each quantity over the layers.

    A quantity is left out if no layer has a value. Values that are not finite are marked at the bottom of their chart.

    Args:
        layers: Numbers of the layers.
        curves: Title of a chart -> value in each layer; None where there is none.
    """
    import matplotlib
    from matplotlib.figure import Figure

    drawn = {title: values for title, values in curves.items() if any(value is not None for value in values)}
    if not drawn:
        return ""
    rows = -(-len(drawn) // COLUMNS)
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(3 * COLUMNS, 1.9 * rows), layout="constrained")
        axes = figure.subplots(rows, COLUMNS, squeeze=False).ravel()
        for one in axes[len(drawn) :]:
            one.remove()
        for one, (title, values) in zip(axes, drawn.items(), strict=False):
            _chart(one, title, layers, values)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", file.getvalue(), flags=re.DOTALL)


def _chart(axes: Any, title: str, layers: Sequence[int], values: Sequence[float | None]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_title(title, fontsize=10, loc="left")
    known = [(layer, value) for layer, value in zip(layers, values, strict=True) if value is not None]
    finite = [value for _, value in known if math.isfinite(value)]
    heights = [value if math.isfinite(value) else math.nan for _, value in known]
    axes.plot([layer for layer, _ in known], heights, "o-", markersize=2.5)
    if finite and min(finite) > 0 and math.log10(max(finite) / min(finite)) > DECADES:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:.0e}")
    if lost := [layer for layer, value in known if not math.isfinite(value)]:
        axes.plot(lost, [0.02] * len(lost), "x", color="#D55E00", transform=axes.get_xaxis_transform())
        axes.set_xlabel("x: not finite", fontsize=8)
    axes.set_xlim(layers[0] - 0.5, layers[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.grid(axis="y", color="0.9")
