"""The frame of every web page that is written: reports of runs and of a probe."""

import html
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font-family: system-ui, sans-serif; margin: 1.5rem auto; max-width: 1200px;
  padding: 0 1rem; color: #222; }}
h1 {{ font-size: 1.3rem; }}
h2 {{ font-size: 1.1rem; }}
p {{ line-height: 1.45; margin: 0.35rem 0; overflow-wrap: anywhere; color: #333; }}
code {{ white-space: nowrap; font-size: 0.95em; }}
svg {{ width: 100%; height: auto; }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums;
  margin: 1rem 0; }}
th, td {{ padding: 0.15rem 0.6rem; text-align: right; white-space: nowrap; }}
thead th {{ border-bottom: 1px solid #444; }}
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


def svg(figure: "Figure", **options: Any) -> str:
    """A figure as an element of a page; with ``svg.hashsalt`` equal figures give equal text."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None}, **options)
    _, start, picture = file.getvalue().partition("<svg")  # without XML's declaration before it
    return start + picture


def web_page(title: str, body: str) -> str:
    """A self-contained HTML page that needs no network.

    Args:
        title: Its heading, as text.
        body: Everything below the heading, as HTML.
    """
    return PAGE.format(title=html.escape(title), body=body)
