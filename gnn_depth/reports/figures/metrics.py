"""Figures of a metric, averaged over seeds: against depth or another axis, and over the epochs of the training."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.figures.charts import COLOURS, Axis, Band, Chart, Line, Panel, quiet
from gnn_depth.reports.figures.groups import (
    Group,
    Names,
    check_size,
    count_of,
    counted,
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
from gnn_depth.reports.settings import full_name, is_percent, last_part, settings, words
from gnn_depth.reports.table import METRIC, SPREADS, Cell, Labels, t_half_width, tabulate

BandSpread: TypeAlias = Literal["std", "ci", "none"]
BAND_SPREADS = (*SPREADS, "none")
DODGE = 0.12  # shift between lines above the same category
LISTED = 4  # points without a value that a caption names
DECADES = 2  # a metric whose positive values span more than these gets a logarithmic axis


def depth(
    frame: pd.DataFrame,
    x: str | None = None,
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    metric: str = METRIC,
    spread: BandSpread = "std",
    published: Sequence[Published] = (),
) -> Chart:
    """Mean over seeds of a metric against an axis, with a band for its spread and published numbers.

    Args:
        frame: Runs, as `load` returns them.
        x: The x axis; ``depth`` or ``num_layers`` by default.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        metric: The metric to average.
        spread: The band: ``std``, the sample standard deviation, ``ci``, the 95% t interval, or ``none``.
        published: Numbers of papers, drawn as open markers in the colour of the line that they compare with.

    Raises:
        ReportError: An axis or the metric does not exist, or runs of one point differ in more than their seed.
    """
    _check_spread(spread)
    with_result(frame)
    if x is None:
        known = {last_part(name) for name in settings(frame)}
        x = "num_layers" if "num_layers" in known and "depth" not in known else "depth"
    across = full_name(frame, x)
    by = names(frame, panel, line, [across])
    table = tabulate(frame, [across], [*by.panel, *by.line], metric)
    rows = [row[0] for row in table.rows]
    axis, places = placed(across, rows)
    cells = {column: [row[at] for row in table.cells] for at, column in enumerate(table.columns)}
    panels = _panels(by, axis, np.array(places, dtype=float), cells, metric, spread)
    found = compare_published(table, published)
    panels = _with_published(panels, found, by, dict(zip(table.rows, places, strict=True)), scale(metric))
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    n = count_of(cell.n for column in cells.values() for cell in column if cell.n)
    caption = sentences(f"Mean{around} over seeds, {n}.", tally(frame), _without_value(cells, axis, rows))
    return Chart(axis, metric_axis(metric), panels, by.legend, caption=caption)


def _check_spread(spread: str) -> None:
    if spread not in BAND_SPREADS:
        raise ReportError(unknown("spread", spread, BAND_SPREADS))


def _panels(
    by: Names,
    axis: Axis,
    places: np.ndarray,
    cells: Mapping[Labels, list[Cell]],
    metric: str,
    spread: BandSpread,
) -> tuple[Panel, ...]:
    split = len(by.panel)
    panels: dict[Labels, list[Line]] = {column[:split]: [] for column in cells}
    styles = {column: style for style, column in enumerate(dict.fromkeys(column[split:] for column in cells))}
    check_size(len(panels), len(styles))
    for column, inside in cells.items():
        style = styles[column[split:]]
        shift = (style - (len(styles) - 1) / 2) * min(DODGE, 0.8 / len(styles)) if axis.categories else 0.0
        known = [at for at, cell in enumerate(inside) if cell.runs]
        drawn = [inside[at] for at in known]
        mean = scale(metric) * np.array([cell.mean for cell in drawn])
        bands: tuple[Band, ...] = ()
        if spread != "none":
            widths = [cell.half_width(spread) for cell in drawn]
            half = scale(metric) * np.array([np.nan if width is None else width for width in widths])
            bands = (Band(mean - half, mean + half),)
        notes = tuple(_note(by, column, axis, places[at], inside[at], metric, spread) for at in known)
        line = Line(", ".join(column[split:]), places[known] + shift, mean, bands, style, notes=notes)
        panels[column[:split]].append(line)
    return tuple(Panel(by.panel_title(values), tuple(lines)) for values, lines in panels.items())


def _note(by: Names, column: Labels, axis: Axis, place: float, cell: Cell, metric: str, spread: BandSpread) -> str:
    labels = [f"{words(name)}={value}" for name, value in zip((*by.panel, *by.line), column, strict=True)]
    half = None if spread == "none" else cell.half_width(spread)
    value = f"{scale(metric) * cell.mean:.4g}" if cell.n else "no value"
    around = f" ± {scale(metric) * half:.3g}" if half is not None else ""
    at = dict(axis.ticks).get(place, f"{place:g}")
    counts = f"n = {cell.n}" + (f", {cell.diverged} diverged" if cell.diverged else "")
    head = ", ".join([*labels, f"{axis.label} {at}"])
    return "\n".join([head, value + around, counts, folder_list(run.folder for run in cell.runs)])


def _without_value(cells: Mapping[Labels, list[Cell]], axis: Axis, rows: list[str]) -> str:
    """A note on points that cannot be drawn because none of their runs has a value."""
    empty = [
        ", ".join([*column, f"{axis.label} {row}"]) + f" ({counted(Counter(run.status for run in cell.runs))})"
        for column, inside in cells.items()
        for row, cell in zip(rows, inside, strict=True)
        if cell.runs and not cell.n
    ]
    more = f" and {len(empty) - LISTED} more" if len(empty) > LISTED else ""
    return f"Without a value: {'; '.join(empty[:LISTED])}{more}." if empty else ""


def _with_published(
    panels: Sequence[Panel], found: Sequence[Agreement], by: Names, places: Mapping[Labels, float], factor: float
) -> tuple[Panel, ...]:
    """The panels with published numbers: for each line and source, open markers in the line's colour."""
    sources = list(dict.fromkeys(one.published.source for one in found))
    numbers: dict[tuple[str, str, str], list[Agreement]] = {}
    for one in found:
        panel, line = one.column[: len(by.panel)], one.column[len(by.panel) :]
        numbers.setdefault((by.panel_title(panel), ", ".join(line), one.published.source), []).append(one)
    more: dict[str, list[Line]] = {}
    for (title, label, source), some in numbers.items():
        (ours,) = (line for panel in panels for line in panel.lines if (panel.title, line.label) == (title, label))
        some.sort(key=lambda one: places[one.row])
        mean = factor * np.array([one.number.mean for one in some])
        half = factor * np.array([np.nan if one.number.half is None else one.number.half for one in some])
        more.setdefault(title, []).append(
            Line(
                label=", ".join(filter(None, [label, source.split(",")[0]])),  # the table has the whole citation
                x=np.array([places[one.row] for one in some]),
                y=mean,
                bands=(Band(mean - half, mean + half),) if np.isfinite(half).any() else (),
                style=ours.style + len(COLOURS) * (1 + sources.index(source)),
                part="published",
                notes=tuple(f"{source}\n{value:.4g}" for value in mean),
            )
        )
    return tuple(replace(panel, lines=(*panel.lines, *more.get(panel.title, ()))) for panel in panels)


def convergence(
    frame: pd.DataFrame,
    tag: str = "val/acc",
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    spread: BandSpread = "std",
) -> Chart:
    """Mean over seeds of a metric in every epoch, with a band for its spread.

    A line ends where the first of its runs finished, because a mean jumps where a run drops out; diverged runs count
    as far as they got.

    Args:
        frame: Runs, as `load` returns them.
        tag: The metric, a column of ``metrics.csv``.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        spread: The band: ``std``, the sample standard deviation, ``ci``, the 95% t interval, or ``none``.

    Raises:
        ReportError: An axis or the metric does not exist, or runs of one line differ in more than their seed.
    """
    _check_spread(spread)
    found = curves(with_result(frame), tag)
    found["value"] = scale(tag) * found["value"].where(np.isfinite(found["value"]))
    by = names(frame, panel, line)
    finite = found["value"].dropna()
    log = not is_percent(tag) and finite.min() > 0 and math.log10(finite.max() / finite.min()) > DECADES
    drawn, counts, cut = [], [], 0
    for group in groups(frame, by):
        table = found[found["run"].isin(group.runs.index)].pivot(index="epoch", columns="run", values="value")
        if len(table):
            kept = table.loc[: _end(table, group)]
            cut += len(kept) < len(table)
            counts.append(kept.shape[1])
            drawn.append((group.panel, _curve(group, kept, spread, finite.min() / 10 if log else -math.inf)))
    if not drawn:
        raise ReportError(f"no run has a value of {tag!r}.")
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    what = f"Mean{around} over seeds, {count_of(counts)}." if max(counts) > 1 else "One run per line."
    end = "A line ends where the first of its runs finished." if cut else ""
    caption = sentences(what, end, tally(frame))
    return Chart(Axis("epoch", whole=True), metric_axis(tag, log), into_panels(drawn), by.legend, caption=caption)


def _end(table: pd.DataFrame, group: Group) -> int:
    """The last epoch of the run that finished first; of the run that diverged first where none finished."""
    last = {run: table[run].last_valid_index() for run in table}
    last = {run: epoch for run, epoch in last.items() if epoch is not None}
    finished = [epoch for run, epoch in last.items() if group.runs.loc[run, "status"] == "finished"]
    return int(min(finished or last.values() or [table.index[-1]]))


def _curve(group: Group, table: pd.DataFrame, spread: BandSpread, least: float) -> Line:
    epochs, values = table.index.to_numpy(), table.to_numpy().T
    n = np.isfinite(values).sum(axis=0)
    with quiet():
        mean = np.nanmean(values, axis=0)
    half = half_widths(values, spread)
    # On a logarithmic axis a band that reaches below zero is cut a decade below all values.
    bands = (Band(np.maximum(mean - half, least), mean + half),) if np.isfinite(half).any() else ()
    notes = []
    for epoch, value, width, count in zip(epochs.tolist(), mean.tolist(), half.tolist(), n.tolist(), strict=True):
        around = "" if math.isnan(width) else f" ± {width:.3g}"
        notes.append(f"{group.line}\nepoch {epoch}: {value:.4g}{around}\nn = {count}".lstrip())
    return Line(
        group.line, epochs, mean, bands, group.style, notes=tuple(notes), note=folder_list(group.runs["folder"])
    )


def half_widths(values: np.ndarray, spread: BandSpread) -> np.ndarray:
    """The number after ± in every column, as `Cell.half_width` computes it; NaN for fewer than two values.

    Args:
        values: Shape (runs, points), NaN where a run has no value.
        spread: ``std``, ``ci``, or ``none``, which gives NaN.
    """
    n = np.isfinite(values).sum(axis=0)
    with quiet():
        deviation = np.nanstd(values, axis=0, ddof=1) if spread != "none" else np.full(len(n), np.nan)
    deviation[n < 2] = np.nan
    return np.asarray(t_half_width(deviation, np.maximum(n, 2))) if spread == "ci" else deviation
