"""A metric against an axis: accuracy against depth, or against the radius of trees."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.beside import beside
from gnn_depth.reports.figures.charts import Axis, Band, Line, LinePanel, Lines
from gnn_depth.reports.figures.groups import Names, check_size, last_word, names, placed, with_result
from gnn_depth.reports.figures.words import count_of, counted, listed, metric_axis, scale, sentences, tally
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.published import Published, compare_published
from gnn_depth.reports.settings import full_name, settings
from gnn_depth.reports.table import METRIC, SPREADS, Cell, Labels, tabulate

Around: TypeAlias = Literal["std", "ci", "none"]
AROUND = (*SPREADS, "none")
DODGE = 0.12  # lines stand side by side above a category
LISTED = 4


def depth(
    frame: pd.DataFrame,
    x: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    metric: str = METRIC,
    spread: Around = "std",
    published: Sequence[Published] = (),
) -> Lines:
    """Mean over seeds of a metric against an axis, with a band of its spread, and numbers of papers beside it.

    Args:
        frame: Runs, as `load` gives them.
        x: Axis to the right; ``depth`` or ``num_layers`` by default.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        metric: What is averaged.
        spread: The band: ``std``, the sample standard deviation, ``ci``, the 95% t interval, or ``none``.
        published: Numbers of papers, drawn as open markers of the line that they are of.

    Raises:
        ReportError: An axis or the metric does not exist, or runs of one point differ in more than their seed.
    """
    check_spread(spread)
    with_result(frame)
    across = full_name(frame, x or _depth(frame))
    by = names(frame, panel, line, [across])
    table = tabulate(frame, [across], [*by.panel, *by.line], metric)
    axis, places = placed(across, [row[0] for row in table.rows])
    cells = {column: [row[at] for row in table.cells] for at, column in enumerate(table.columns)}
    panels = _panels(by, axis, np.array(places, dtype=float), cells, metric, spread)
    panels = beside(
        panels, compare_published(table, published), by, dict(zip(table.rows, places, strict=True)), scale(metric)
    )
    nothing = _nothing(cells, axis, [row[0] for row in table.rows])
    caption = sentences(_what(spread, cells), tally(frame), nothing)
    return Lines(axis, metric_axis(metric), panels, by.legend, caption)


def check_spread(spread: str) -> None:
    """Refuse a spread that does not exist.

    Raises:
        ReportError: There is no such spread.
    """
    if spread not in AROUND:
        raise ReportError(unknown("spread", spread, AROUND))


def _depth(frame: pd.DataFrame) -> str:
    words = {last_word(name) for name in settings(frame)}
    return next((word for word in ("depth", "num_layers") if word in words), "depth")


def _panels(
    by: Names,
    axis: Axis,
    places: np.ndarray,
    cells: dict[Labels, list[Cell]],
    metric: str,
    spread: Around,
) -> tuple[LinePanel, ...]:
    split = len(by.panel)
    panels: dict[Labels, list[Line]] = {column[:split]: [] for column in cells}
    styles = {column: style for style, column in enumerate(dict.fromkeys(column[split:] for column in cells))}
    check_size(len(panels), len(styles))
    for column, inside in cells.items():
        style = styles[column[split:]]
        shift = (style - (len(styles) - 1) / 2) * min(DODGE, 0.8 / len(styles)) if axis.categories else 0.0
        known = [at for at, cell in enumerate(inside) if cell.runs]
        drawn = [inside[at] for at in known]
        notes = tuple(_note(by, column, axis, places[at], inside[at], metric, spread) for at in known)
        panels[column[:split]].append(
            Line(", ".join(column[split:]), places[known] + shift, *_values(drawn, metric, spread), style, notes=notes)
        )
    return tuple(LinePanel(by.panel_title(values), tuple(lines)) for values, lines in panels.items())


def _values(cells: list[Cell], metric: str, spread: Around) -> tuple[np.ndarray, tuple[Band, ...]]:
    mean = scale(metric) * np.array([cell.mean for cell in cells])
    if spread == "none":
        return mean, ()
    widths = [cell.half_width(spread) for cell in cells]
    half = scale(metric) * np.array([np.nan if width is None else width for width in widths])
    return mean, (Band(mean - half, mean + half),)


def _note(by: Names, column: Labels, axis: Axis, place: float, cell: Cell, metric: str, spread: Around) -> str:
    settings = [f"{last_word(name)}={value}" for name, value in zip((*by.panel, *by.line), column, strict=True)]
    half = None if spread == "none" else cell.half_width(spread)
    value = f"{scale(metric) * cell.mean:.4g}" if cell.n else "no value"
    around = f" ± {scale(metric) * half:.3g}" if half is not None else ""
    at = dict(axis.ticks).get(place, f"{place:g}")
    counts = f"n = {cell.n}" + (f", {cell.diverged} diverged" if cell.diverged else "")
    head = ", ".join([*settings, f"{axis.label} {at}"])
    return "\n".join([head, value + around, counts, listed(run.folder for run in cell.runs)])


def _what(spread: Around, cells: dict[Labels, list[Cell]]) -> str:
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    return f"Mean{around} over seeds, {count_of(cell.n for column in cells.values() for cell in column if cell.n)}."


def _nothing(cells: dict[Labels, list[Cell]], axis: Axis, rows: list[str]) -> str:
    """The points that cannot be drawn, because none of their runs has a value."""
    empty = [
        ", ".join([*column, f"{axis.label} {row}"]) + f" ({counted(Counter(run.status for run in cell.runs))})"
        for column, inside in cells.items()
        for row, cell in zip(rows, inside, strict=True)
        if cell.runs and not cell.n
    ]
    more = f" and {len(empty) - LISTED} more" if len(empty) > LISTED else ""
    return f"Without a value: {'; '.join(empty[:LISTED])}{more}." if empty else ""
