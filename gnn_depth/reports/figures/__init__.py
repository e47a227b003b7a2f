"""Figures of runs: turn a frame of runs into a chart, and a chart into a PNG, PDF or web page."""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import Chart
from gnn_depth.reports.figures.measures import heatmap, history, layers, scatter
from gnn_depth.reports.figures.metrics import convergence, depth
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import Published

KINDS: dict[str, Callable[..., Chart]] = {
    "depth": depth,
    "heatmap": heatmap,
    "layers": layers,
    "history": history,
    "convergence": convergence,
    "scatter": scatter,
}
# Options for which a single value stands for a list of one.
LISTS = ("line", "panel", "measure", "layers", "at")
FORMATS = (".png", ".pdf", ".html")


def chart(
    kind: str, frame: pd.DataFrame, published: Sequence[Published] = (), **options: object
) -> Chart:
    """Make a chart of a given kind from runs; kind ``depth`` shows published numbers too.

    Raises:
        ReportError: There is no such kind, it has no such option, or an option names something that
            does not exist.
    """
    check_options(kind, options)
    given = dict(options)
    for name in LISTS:
        if isinstance(given.get(name), str | int):
            given[name] = [given[name]]
    if kind == "depth":
        given["published"] = published
    return KINDS[kind](frame, **given)


def check_options(kind: str, options: Collection[str]) -> None:
    """Refuse an unknown kind of figure, and unknown options."""
    if kind not in KINDS:
        raise ReportError(unknown("kind of figure", kind, KINDS))
    known = list(inspect.signature(KINDS[kind]).parameters)  # the functions are the one list
    accepted = [name for name in known if name not in ("frame", "published")]
    for name in options:
        if name not in accepted:
            raise ReportError(
                f"figure {kind!r} has no option {name!r}. Accepted: {', '.join(accepted)}."
            )


def restyled(
    chart: Chart,
    log: Collection[str] | None = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    caption: str | None = None,
) -> Chart:
    """The chart with these logarithmic axes (``x``, ``y``), labels and caption.

    None leaves a part as it is.
    """
    x, y = chart.x, chart.y
    if log is not None:
        if "x" in log and x.categories:
            raise ReportError(
                f"the x axis shows names of {x.label!r}, not numbers: it cannot be logarithmic."
            )
        x, y = replace(x, log="x" in log), replace(y, log="y" in log)
    if xlabel is not None:
        x = replace(x, label=xlabel)
    if ylabel is not None:
        y = replace(y, label=ylabel)
    if caption is None:
        caption = chart.caption
    return replace(chart, x=x, y=y, caption=caption)


def save_figure(
    chart: Chart, path: str | Path, title: str = "", size: tuple[float, float] | None = None
) -> None:
    """Draw a chart into a new file, whose suffix is the format.

    The size is that of the panels together, in inches; by default a journal's column or page.
    """
    from gnn_depth.reports.figures.drawing import write_figure  # Matplotlib is slow to import

    if Path(path).exists():
        raise ReportError(f"{str(path)!r} exists; move it away or choose another name.")
    write_figure(chart, Path(path), title, size)
