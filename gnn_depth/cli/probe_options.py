"""The options that ``gnn-depth probe`` alone has."""

from typing import Literal

from jsonargparse import ArgumentParser

PAGES = (".html",)


def add_probe_options(parser: ArgumentParser) -> None:
    """Add them to the parser of the command."""
    scales = "Factors of each layer's input, to measure its Lipschitz constant there too."
    parser.add_argument("--scales", type=float, nargs="+", default=[], help=scales)
    layers = "Whether the table shows some layers or all; all are measured."
    parser.add_argument("--layers", type=Literal["some", "all"], default="some", help=layers)
    html = "File to write a page with charts of every measure to, for a browser: FILE.html."
    parser.add_argument("--html", type=str | None, default=None, help=html)
    tried = "Build the model with each remedy that is proposed, too, and measure what becomes of what was found."
    parser.add_argument("--try", action="store_true", help=tried)
