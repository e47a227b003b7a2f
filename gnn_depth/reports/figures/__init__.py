"""Figures of runs: turn a frame from `load` into a chart, and a chart into a PNG, PDF or
interactive HTML page."""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Chart
from gnn_depth.reports.figures.measures import heatmap, history, layers, scatter
from gnn_depth.reports.figures.metrics import convergence, depth
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import Published

__all__ = [
    *("FORMATS", "KINDS", "Chart", "chart", "check_options", "convergence", "depth"),
    *("heatmap", "history", "layers", "restyled", "save", "scatter", "writer"),
]

KINDS: dict[str, Callable[..., Chart]] = {
    kind.__name__: kind for kind in (depth, heatmap, layers, history, convergence, scatter)
}
LISTS = (
    "line",
    "panel",
    "measure",
    "layers",
    "at",
)  # options for which a single value stands for a list of one
FORMATS = (".png", ".pdf", ".html")


def chart(
    kind: str, frame: pd.DataFrame, published: Sequence[Published] = (), **options: Any
) -> Chart:
    """Make a chart of a given kind from runs; published numbers are shown in figures of kind depth.

    Raises:
        ReportError: There is no such kind, it has no such option, or an option names something that
            does not exist.
    """
    check_options(kind, options)
    lists = {
        name: [value]
        for name, value in options.items()
        if name in LISTS and isinstance(value, str | int)
    }
    extra = {"published": published} if kind == "depth" else {}
    return KINDS[kind](frame, **options | lists | extra)


def check_options(kind: str, options: dict[str, Any]) -> None:
    """Refuse an unknown kind of figure, and unknown options."""
    if kind not in KINDS:
        raise ReportError(unknown("kind of figure", kind, KINDS))
    known = [
        name
        for name in inspect.signature(KINDS[kind]).parameters
        if name not in ("frame", "published")
    ]
    for name in options:
        if name not in known:
            raise ReportError(
                f"figure {kind!r} has no option {name!r}. Accepted: {', '.join(known)}."
            )


def restyled(
    chart: Chart,
    log: Collection[str] | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    caption: str | None = None,
) -> Chart:
    """The same chart with these logarithmic axes (``x``, ``y``), labels and caption; None leaves a
    part as it is."""
    x, y = chart.x, chart.y
    if log is not None:
        if "x" in log and x.categories:
            raise ReportError(
                f"the x axis shows names of {x.label!r}, not numbers: it cannot be logarithmic."
            )
        x, y = replace(x, log="x" in log), replace(y, log="y" in log)
    x = x if xlabel is None else replace(x, label=xlabel)
    y = y if ylabel is None else replace(y, label=ylabel)
    return replace(chart, x=x, y=y, caption=chart.caption if caption is None else caption)


def save(
    chart: Chart, path: str | Path, title: str = "", size: tuple[float, float] | None = None
) -> None:
    """Draw a chart into a new file, whose suffix is the format.

    The size is that of the panels together, in inches; by default a journal's column or page.
    """
    if Path(path).exists():
        raise ReportError(f"{str(path)!r} exists; move it away or choose another name.")
    writer(Path(path).suffix)(chart, Path(path), title, size)


def writer(suffix: str) -> Callable[[Chart, Path, str, tuple[float, float] | None], None]:
    """The function that writes files with a given suffix; an error if its library is not
    installed."""
    if suffix != ".html":
        from gnn_depth.reports.figures.paper import write_paper

        return write_paper
    try:
        from gnn_depth.reports.figures.page import write_page
    except ImportError as error:
        raise ReportError(
            f"{suffix} needs the extra `plots`: pip install 'gnn-depth[plots]' ({error})."
        ) from error
    return write_page
