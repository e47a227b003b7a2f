"""Figures of a metric, averaged over seeds: against depth or another axis, and over the epochs of
the training."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import COLOURS, Axis, Chart, Line
from gnn_depth.reports.figures.groups import (
    Names,
    count_of,
    folder_list,
    groups,
    into_panels,
    metric_axis,
    names,
    placed,
    scale,
    sentences,
    tally,
    with_result,
)
from gnn_depth.reports.load import ReportError, curves
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
from gnn_depth.reports.table import SPREADS, Cell, t_half_width, tabulate

BandSpread: TypeAlias = Literal["std", "ci", "none"]
Bands: TypeAlias = tuple[tuple[np.ndarray, np.ndarray], ...]
BAND_SPREADS = (*SPREADS, "none")
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
    metric = main_metric(with_result(frame)) if metric is None else metric
    if x is None:
        known = {last_part(name) for name in settings(frame)}
        x = "num_layers" if "num_layers" in known and "depth" not in known else "depth"
    across = full_name(frame, x)
    by = names(frame, panel, line, [across])
    table = tabulate(frame, [across], [*by.panel, *by.line], metric, remedy=by.remedy)
    axis, places = placed(across, [row[0] for row in table.rows])
    titles = [by.split(column) for column in table.columns]
    styles = {
        label: style for style, label in enumerate(dict.fromkeys(label for _, label in titles))
    }
    drawn, empty, factor = [], [], scale(metric)
    for column, (title, label) in zip(table.columns, titles, strict=True):
        shift = (
            (styles[label] - (len(styles) - 1) / 2) * min(DODGE, 0.8 / len(styles))
            if axis.categories
            else 0.0
        )
        # A combination that nobody ran is no gap in the line.
        cells = zip(
            places, table.rows, [table.cells[row, column] for row in table.rows], strict=True
        )
        there = [(at, row[0], cell) for at, row, cell in cells if cell.runs]
        x_of_line = np.array([at for at, _, _ in there]) + shift
        mean = factor * np.array([cell.mean for _, _, cell in there])
        bands: Bands = ()
        if spread != "none":
            half = np.array([cell.half_width(spread) for _, _, cell in there], dtype=float)
            bands = _band(mean, factor * half)
        notes = tuple(_note(cell) for _, _, cell in there)
        drawn.append((title, Line(label, x_of_line, mean, bands, styles[label], notes=notes)))
        for _, value, cell in there:
            if not cell.n:
                empty.append(
                    ", ".join([*column, f"{axis.label} {value}"]) + f" ({counted(cell.statuses)})"
                )
    found = compare_published(table, published)
    drawn += _published(found, by, styles, dict(zip(table.rows, places, strict=True)), factor)
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    n = count_of(cell.n for cell in table.cells.values() if cell.n)
    more = f" and {len(empty) - LISTED} more" if len(empty) > LISTED else ""
    without = f"Without a value: {'; '.join(empty[:LISTED])}{more}." if empty else ""
    caption = sentences(f"Mean{around} over seeds, {n}.", tally(frame), without)
    return Chart(axis, metric_axis(metric), into_panels(drawn), by.legend, caption=caption)


def _check_spread(spread: str) -> None:
    if spread not in BAND_SPREADS:
        raise ReportError(unknown("spread", spread, BAND_SPREADS))


def _band(mean: np.ndarray, half: np.ndarray, least: float = -math.inf) -> Bands:
    """A band around the mean that does not go below the least value; none if no point has one."""
    return ((np.maximum(mean - half, least), mean + half),) if np.isfinite(half).any() else ()


def _note(cell: Cell) -> str:
    diverged = cell.statuses["diverged"]
    parts = [
        f"n = {cell.n}",
        f"{diverged} diverged" * bool(diverged),
        folder_list(run.folder for run in cell.runs),
    ]
    return "\n".join(filter(None, parts))


def _published(
    found: Sequence[Agreement],
    by: Names,
    styles: Mapping[str, int],
    places: Mapping[Labels, float],
    factor: float,
) -> Iterator[tuple[str, Line]]:
    """Published numbers: for each line and source, open markers in the line's colour."""
    sources = list(dict.fromkeys(one.published.source for one in found))
    numbers: dict[tuple[str, str, str], list[Agreement]] = {}
    for one in sorted(found, key=lambda one: places[one.row]):
        numbers.setdefault((*by.split(one.column), one.published.source), []).append(one)
    for (title, label, source), some in numbers.items():
        mean = factor * np.array([one.number.mean for one in some])
        half = factor * np.array(
            [np.nan if one.number.half is None else one.number.half for one in some]
        )
        yield (
            title,
            Line(
                label=", ".join(
                    filter(None, [label, source.split(",")[0]])
                ),  # the table has the whole citation
                x=np.array([places[one.row] for one in some]),
                y=mean,
                bands=_band(mean, half),
                style=styles[label] + len(COLOURS) * (1 + sources.index(source)),
                part="published",
                note=source,
            ),
        )


def convergence(
    frame: pd.DataFrame,
    tag: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    spread: BandSpread = "std",
) -> Chart:
    """Mean over seeds of a metric in every epoch, a column of ``metrics.csv``, with a band for its
    spread.

    A line ends where the first of its runs finished, because a mean jumps where a run drops out. A
    diverged run counts up to the epoch in which it diverged.
    """
    _check_spread(spread)
    results = with_result(frame)
    tag = monitor(results) if tag is None else tag
    found = curves(results, tag)
    found["value"] = scale(tag) * found["value"].where(np.isfinite(found["value"]))
    by = names(frame, panel, line)
    finite = found["value"].dropna()
    log = (
        not is_percent(tag)
        and finite.min() > 0
        and math.log10(finite.max() / finite.min()) > DECADES
    )
    least = (
        finite.min() / 10 if log else -math.inf
    )  # on a logarithmic axis a band ends a decade below all values
    drawn, counts, cut = [], [], False
    for group in groups(frame, by):
        table = found[found["run"].isin(group.runs.index)].pivot(
            index="epoch", columns="run", values="value"
        )
        if len(table):
            kept = table.loc[: _end(table, group.runs["status"])]
            cut = cut or len(kept) < len(table)
            counts.append(kept.shape[1])
            mean, half, n = (kept.agg(what, axis=1).to_numpy() for what in ("mean", "std", "count"))
            if spread == "ci":
                half = t_half_width(half, np.maximum(n, 2))
            bands = () if spread == "none" else _band(mean, half, least)
            notes, folders = tuple(f"n = {count}" for count in n), folder_list(group.runs["folder"])
            epochs = kept.index.to_numpy()
            drawn.append(
                (
                    group.panel,
                    Line(group.line, epochs, mean, bands, group.style, notes=notes, note=folders),
                )
            )
    if not drawn:
        raise ReportError(f"no run has a value of {tag!r}.")
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    what = (
        f"Mean{around} over seeds, {count_of(counts)}." if max(counts) > 1 else "One run per line."
    )
    end = "A line ends where the first of its runs finished." if cut else ""
    caption = sentences(what, end, tally(frame))
    return Chart(
        Axis("epoch", whole=True),
        metric_axis(tag, log),
        into_panels(drawn),
        by.legend,
        caption=caption,
    )


def _end(table: pd.DataFrame, status: pd.Series) -> int:
    """The last epoch of the run that finished first; of the run that diverged first where none
    finished."""
    last = table.apply(pd.Series.last_valid_index).dropna()
    finished = last[status.reindex(last.index) == "finished"]
    return int(min(finished if len(finished) else last, default=table.index[-1]))
