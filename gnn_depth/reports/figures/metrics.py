"""Figures of a metric averaged over seeds: against depth or another axis, and over the epochs."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import COLOURS, Axis, Chart, Line
from gnn_depth.reports.figures.grouping import (
    Grouping,
    choose_grouping,
    count_of,
    groups,
    into_panels,
    metric_axis,
    placed,
    scale,
    sentences,
    tally,
    with_result,
)
from gnn_depth.reports.load import ReportError, first_of, read_curves
from gnn_depth.reports.published import Agreement, Published, compare_published
from gnn_depth.reports.settings import (
    Labels,
    counted,
    full_name,
    is_percent,
    last_part,
    main_metric,
    monitor,
    settings,
)
from gnn_depth.reports.table import SPREADS, t_half_width, tabulate

BandSpread: TypeAlias = Literal["std", "ci", "none"]
Bands: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], ...]
# What the line and its band are, by the spread.
MEANS = {name: f"Mean and {words}" for name, words in SPREADS.items()} | {"none": "Mean"}
BAND_SPREADS = tuple(MEANS)
DODGE = 0.12  # shift between lines above the same category
LISTED = 4  # points without a value that a caption names
DECADES = 2  # a metric whose positive values span more than these gets a logarithmic axis


def depth(
    frame: pd.DataFrame,
    x: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    metric: str | None = None,
    spread: BandSpread = "std",
    published: Sequence[Published] = (),
) -> Chart:
    """Mean over seeds of a metric against an axis, with a band for its spread.

    Published numbers are open markers in the colour of the line that they compare with.
    """
    _check_spread(spread)
    metric = metric or main_metric(with_result(frame))
    if x is None:
        known = {last_part(name) for name in settings(frame)}
        x = "depth"
        if "num_layers" in known and "depth" not in known:
            x = "num_layers"
    across = full_name(frame, x)
    by = choose_grouping(frame, panel, line, [across])
    table = tabulate(frame, [across], [*by.panel, *by.line], metric, remedy=by.remedy)
    axis, positions = placed(across, [row[0] for row in table.rows])
    places = dict(zip(table.rows, positions, strict=True))
    factor = scale(metric)
    styles: dict[str, int] = {}
    for column in table.columns:
        styles.setdefault(by.split(column)[1], len(styles))
    drawn = []
    empty = []
    for column in table.columns:
        title, label = by.split(column)
        shift = 0.0
        if axis.categories:
            middle = (len(styles) - 1) / 2
            shift = (styles[label] - middle) * min(DODGE, 0.8 / len(styles))
        # A combination that nobody ran is no gap in the line.
        rows = [row for row in table.rows if table.cells[row, column].runs]
        cells = [table.cells[row, column] for row in rows]
        mean = factor * np.array([cell.mean for cell in cells])
        bands: Bands = ()
        if spread != "none":
            half = np.array([cell.half_width(spread) for cell in cells], dtype=float)
            bands = _band(mean, factor * half)
        x_of_line = np.array([places[row] for row in rows]) + shift
        drawn.append((title, Line(label, x_of_line, mean, bands, styles[label])))
        for row, cell in zip(rows, cells, strict=True):
            if not cell.n:
                name = ", ".join([*column, f"{axis.label} {row[0]}"])
                empty.append(f"{name} ({counted(cell.statuses)})")
    drawn += _published_lines(compare_published(table, published), by, styles, places, factor)
    counts = [cell.n for cell in table.cells.values() if cell.n]
    what = "One run per point."
    if max(counts, default=1) > 1:
        what = f"{MEANS[spread]} over seeds, {count_of(counts)}."
    caption = sentences(what, tally(frame))
    if empty:
        caption += f" Without a value: {first_of(empty, LISTED, '; ')}."
    return Chart(axis, metric_axis(metric), into_panels(drawn), by.legend, caption=caption)


def _check_spread(spread: str) -> None:
    if spread not in BAND_SPREADS:
        raise ReportError(unknown("spread", spread, BAND_SPREADS))


def _band(mean: np.ndarray, half: np.ndarray, least: float = -math.inf) -> Bands:
    """A band around the mean that does not go below the least value; none if no point has one."""
    if not np.isfinite(half).any():
        return ()
    return ((np.maximum(mean - half, least), mean + half),)


def _published_lines(
    found: Sequence[Agreement],
    by: Grouping,
    styles: Mapping[str, int],
    places: Mapping[Labels, float],
    factor: float,
) -> list[tuple[str, Line]]:
    """Published numbers: for each line and source, open markers in the line's colour."""
    sources = list(dict.fromkeys(one.published.source for one in found))
    together: dict[tuple[str, str, str], list[Agreement]] = {}
    for one in sorted(found, key=lambda one: places[one.row]):
        title, label = by.split(one.column)
        together.setdefault((title, label, one.published.source), []).append(one)
    drawn = []
    for (title, label, source), some in together.items():
        x = np.array([places[one.row] for one in some])
        mean = factor * np.array([one.number.mean for one in some])
        half = factor * np.array([one.number.half for one in some], dtype=float)
        # The table has the whole citation.
        name = ", ".join(filter(None, [label, source.split(",")[0]]))
        style = styles[label] + len(COLOURS) * (1 + sources.index(source))
        drawn.append((title, Line(name, x, mean, _band(mean, half), style, "published")))
    return drawn


def convergence(
    frame: pd.DataFrame,
    tag: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    spread: BandSpread = "std",
) -> Chart:
    """Mean over seeds of a column of ``metrics.csv`` in every epoch, with a band for its spread.

    A line ends where the first of its runs finished, because a mean jumps where a run drops out. A
    diverged run counts up to the epoch in which it diverged.
    """
    _check_spread(spread)
    results = with_result(frame)
    tag = tag or monitor(results)
    found = read_curves(results, tag)
    found["value"] = scale(tag) * found["value"].where(np.isfinite(found["value"]))
    log = _has_decades(tag, found["value"])
    least = -math.inf
    zeros = 0
    if log:  # where zero has no place
        zeros = int((found["value"] == 0).sum())
        found["value"] = found["value"].where(found["value"] > 0)
        # A band ends a decade below all values.
        least = found["value"].min() / 10
    by = choose_grouping(frame, panel, line)
    drawn = []
    counts = []
    cut = False
    for group in groups(frame, by):
        mine = found[found["run"].isin(group.runs.index)]
        table = mine.pivot(index="epoch", columns="run", values="value")
        if table.empty:
            continue
        kept = table.loc[: _end(table, group.runs["status"])]
        cut = cut or len(kept) < len(table)
        counts.append(kept.shape[1])
        mean = kept.mean(axis=1).to_numpy()
        bands: Bands = ()
        if spread != "none":
            half = kept.std(axis=1).to_numpy()
            if spread == "ci":
                half = t_half_width(half, np.maximum(kept.count(axis=1).to_numpy(), 2))
            bands = _band(mean, half, least)
        drawn.append(
            (group.panel, Line(group.line, kept.index.to_numpy(), mean, bands, group.style))
        )
    if not drawn:
        raise ReportError(f"no run has a value of {tag!r}.")
    what = ""
    if max(counts) > 1:
        what = f"{MEANS[spread]} over seeds, {count_of(counts)}."
    elif len(drawn) > 1:
        what = "One run per line."
    if cut:
        what += " A line ends where the first of its runs finished."
    if zeros:
        what += f" Exactly zero, and not drawn: {zeros} of {len(found)} values."
    return Chart(
        Axis("epoch", whole=True),
        metric_axis(tag, log),
        into_panels(drawn),
        by.legend,
        caption=sentences(what.strip(), tally(frame)),
    )


def _has_decades(metric: str, values: pd.Series) -> bool:
    """True if the values of a metric are read on a logarithmic axis: a loss of which one run
    diverged, beside others of usual size."""
    if is_percent(metric) or (values < 0).any():
        return False
    positive = values[values > 0]
    return len(positive) > 0 and math.log10(positive.max() / positive.min()) > DECADES


def _end(table: pd.DataFrame, status: pd.Series) -> int:
    """The last epoch of the run that finished first; that diverged first where none finished."""
    last = table.apply(pd.Series.last_valid_index).dropna()
    finished = last[status.reindex(last.index) == "finished"]
    if len(finished):
        return int(finished.min())
    if len(last):
        return int(last.min())
    return int(table.index[-1])
