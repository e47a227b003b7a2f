"""Figures of runs: from a frame of `load` to a chart, and on paper (PNG, PDF) or on a page to hover over (HTML)."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Chart
from gnn_depth.reports.figures.convergence import convergence
from gnn_depth.reports.figures.depth import depth
from gnn_depth.reports.figures.heat import heatmap
from gnn_depth.reports.figures.histories import history
from gnn_depth.reports.figures.layers import layers
from gnn_depth.reports.figures.scatter import scatter
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import Published

__all__ = [
    *("FORMATS", "KINDS", "Chart", "chart", "check_options", "convergence", "depth"),
    *("heatmap", "history", "layers", "save", "scatter"),
]

KINDS: dict[str, Callable[..., Chart]] = {
    "depth": depth,
    "heatmap": heatmap,
    "layers": layers,
    "history": history,
    "convergence": convergence,
    "scatter": scatter,
}
SEVERAL = ("line", "panel", "measure", "layers", "at")  # where a file may say one without a list
FORMATS = (".png", ".pdf", ".html")


def chart(kind: str, frame: pd.DataFrame, published: Sequence[Published] = (), **options: Any) -> Chart:
    """What a figure of some kind shows of some runs.

    Args:
        kind: ``depth``, ``heatmap``, ``layers``, ``history``, ``convergence`` or ``scatter``.
        frame: Runs, as `load` gives them.
        published: Numbers of papers, which figures of depth show beside ours.
        options: Arguments of the function of that name.

    Raises:
        ReportError: There is no such kind, it has no such option, or what an option names does not exist.
    """
    check_options(kind, options)
    listed = {
        name: [value] if name in SEVERAL and isinstance(value, str | int) else value for name, value in options.items()
    }
    beside = {"published": published} if published and KINDS[kind] is depth else {}
    return KINDS[kind](frame, **listed, **beside)


def check_options(kind: str, options: dict[str, Any]) -> None:
    """Refuse a kind that does not exist, and options that it would ignore.

    Raises:
        ReportError: There is no such kind, or it has no such option.
    """
    if kind not in KINDS:
        raise ReportError(unknown("kind of figure", kind, KINDS))
    # What a figure is made of is no option of it.
    known = [name for name in inspect.signature(KINDS[kind]).parameters if name not in ("frame", "published")]
    for name in options:
        if name not in known:
            raise ReportError(f"figure {kind!r} has no option {name!r}. Accepted: {', '.join(known)}.")


def save(chart: Chart, path: str | Path, title: str = "") -> None:
    """Draw a chart into a new file.

    Args:
        chart: What to draw.
        path: Where to; the suffix says how: ``.png``, ``.pdf`` or ``.html``.
        title: Stands above it.

    Raises:
        ReportError: The suffix is another, the file exists, or the library that draws it is not installed.
    """
    path = Path(path)
    write = writer(path.suffix)
    if path.exists():
        raise ReportError(f"{str(path)!r} exists; move it away or choose another name.")
    write(chart, path, title)


def writer(suffix: str) -> Callable[[Chart, Path, str], None]:
    """What writes files of a suffix.

    Raises:
        ReportError: There is no such format, or its library is not installed.
    """
    if suffix not in FORMATS:
        raise ReportError(f"a figure cannot be written as {suffix!r}. Available: {', '.join(FORMATS)}.")
    try:
        if suffix == ".html":
            from gnn_depth.reports.figures.page import write_page

            return write_page
        from gnn_depth.reports.figures.paper import write_paper
    except ImportError as error:
        raise ReportError(
            f"{suffix} needs {error.name}, of the extra `plots`: pip install 'gnn-depth[plots]'."
        ) from error
    return write_paper
