"""Figures of a metric averaged over seeds: against depth or another axis, and over the epochs."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.registry import first_of, unknown
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
from gnn_depth.reports.load import ReportError, read_curves
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
        known = set(map(last_part, settings(frame)))
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
        if axis.categories:  # else the bars of several lines would hide each other
            middle = (len(styles) - 1) / 2
            shift = (styles[label] - middle) * min(DODGE, 0.8 / len(styles))
        points = []
        for row in table.rows:
            cell = table.cells[row, column]
            if not cell.runs:  # a combination that nobody ran is no gap in the line
                continue
            half = cell.half_width(spread) if spread != "none" else None
            points.append((places[row] + shift, cell.mean, half))
            if not cell.n:
                name = ", ".join([*column, f"{axis.label} {row[0]}"])
                empty.append(f"{name} ({counted(cell.statuses)})")
        x_of_line, mean, band = _with_band(points, factor)
        drawn.append((title, Line(label, x_of_line, mean, band, styles[label])))
    drawn += _published_lines(compare_published(table, published), by, styles, places, factor)
    counts = {cell.n for cell in table.cells.values()} - {0}
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


def _with_band(
    points: Sequence[tuple[float, float, float | None]], factor: float
) -> tuple[np.ndarray, np.ndarray, Bands]:
    """Places, means and the band of points that are a place, a mean and a half width each."""
    x, mean, half = np.array(points, dtype=float).T  # None becomes NaN
    return x, factor * mean, _band(factor * mean, factor * half)


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
    sources: dict[str, int] = {}  # and their places, which tell their markers apart
    for one in found:
        sources.setdefault(one.published.source, len(sources))
    together: dict[tuple[str, str, str], list[Agreement]] = {}
    for one in sorted(found, key=lambda one: places[one.row]):
        title, label = by.split(one.column)
        together.setdefault((title, label, one.published.source), []).append(one)
    drawn = []
    for (title, label, source), some in together.items():
        points = [(places[one.row], one.number.mean, one.number.half) for one in some]
        x, mean, band = _with_band(points, factor)
        # The table has the whole citation.
        name = ", ".join(filter(None, [label, source.split(",")[0]]))
        # The next turns of the palette have the same colour and other markers.
        style = styles[label] + len(COLOURS) * (1 + sources[source])
        drawn.append((title, Line(name, x, mean, band, style, "published")))
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
        if table.empty:  # these runs have no such metric
            continue
        kept = table.loc[: _end(table, group.runs["status"])]
        cut = cut or len(kept) < len(table)
        counts.append(kept.shape[1])
        mean = kept.mean(axis=1).to_numpy()
        bands: Bands = ()
        if spread != "none":
            half = kept.std(axis=1).to_numpy()
            if spread == "ci":
                # Of a single run the deviation is NaN, whatever it is divided by.
                half = t_half_width(half, np.maximum(kept.count(axis=1).to_numpy(), 2))
            bands = _band(mean, half, least)
        line_of_group = Line(group.line, kept.index.to_numpy(), mean, bands, group.style)
        drawn.append((group.panel, line_of_group))
    if not drawn:
        raise ReportError(f"no run has a value of {tag!r}.")
    said = []
    if max(counts) > 1:
        said.append(f"{MEANS[spread]} over seeds, {count_of(counts)}.")
    elif len(drawn) > 1:
        said.append("One run per line.")
    if cut:
        said.append("A line ends where the first of its runs finished.")
    if zeros:
        said.append(f"Exactly zero, and not drawn: {zeros} of {len(found)} values.")
    epochs, caption = Axis("epoch", whole=True), sentences(*said, tally(frame))
    panels = into_panels(drawn)
    return Chart(epochs, metric_axis(tag, log), panels, by.legend, caption=caption)


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
