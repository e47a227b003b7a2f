"""A metric over the epochs of a training."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from gnn_depth.reports.figures.charts import Axis, Band, Line, Lines, positive_range
from gnn_depth.reports.figures.depth import Around, check_spread
from gnn_depth.reports.figures.groups import Group, groups, into_panels, names, with_result
from gnn_depth.reports.figures.measured import quiet
from gnn_depth.reports.figures.words import count_of, listed, metric_axis, scale, sentences, tally
from gnn_depth.reports.load import ReportError, curves
from gnn_depth.reports.sheets import is_percent
from gnn_depth.reports.table import SPREADS, t_half_width

DECADES = 2  # positive values over more than these get a logarithmic axis


def convergence(
    frame: pd.DataFrame,
    tag: str = "val/acc",
    line: Sequence[str] | None = None,
    panel: Sequence[str] = (),
    spread: Around = "std",
) -> Lines:
    """Mean over seeds of a metric in every epoch, with a band of its spread.

    A line ends where the first of its runs finished, because a mean jumps where a run drops out; diverged runs count
    as far as they came.

    Args:
        frame: Runs, as `load` gives them.
        tag: The metric, a column of ``metrics.csv``.
        line: Axes whose values get a line each; by default all that vary and are not used otherwise.
        panel: Axes whose values get a panel each.
        spread: The band: ``std``, the sample standard deviation, ``ci``, the 95% t interval, or ``none``.

    Raises:
        ReportError: An axis or the metric does not exist, or runs of one line differ in more than their seed.
    """
    check_spread(spread)
    found = curves(with_result(frame), tag)
    found["value"] = scale(tag) * found["value"].where(np.isfinite(found["value"]))
    by = names(frame, panel, line)
    low, high = positive_range(found["value"].to_numpy())
    log = not is_percent(tag) and low > 0 and math.log10(high / low) > DECADES
    drawn, counts, cut = [], [], 0
    for group in groups(frame, by):
        table = found[found["run"].isin(group.runs.index)].pivot(index="epoch", columns="run", values="value")
        if len(table):
            kept = table.loc[: _end(table, group)]
            cut += len(kept) < len(table)
            counts.append(kept.shape[1])
            drawn.append((group.panel, _line(group, kept, spread, low / 10 if log else -math.inf)))
    if not drawn:
        raise ReportError(f"no run has a value of {tag!r}.")
    around = "" if spread == "none" else f" and {SPREADS[spread]}"
    what = f"Mean{around} over seeds, {count_of(counts)}." if max(counts) > 1 else "One run a line."
    end = "A line ends with the first of its runs that finished." if cut else ""
    y = metric_axis(tag, log)
    return Lines(Axis("epoch", whole=True), y, into_panels(drawn), by.legend, sentences(what, end, tally(frame)))


def _end(table: pd.DataFrame, group: Group) -> int:
    """The last epoch of the run that finished first; of the run that diverged first where none finished."""
    last = {run: table[run].last_valid_index() for run in table}
    last = {run: epoch for run, epoch in last.items() if epoch is not None}
    finished = [epoch for run, epoch in last.items() if group.runs.loc[run, "status"] == "finished"]
    return int(min(finished or last.values() or [table.index[-1]]))


def _line(group: Group, table: pd.DataFrame, spread: Around, least: float) -> Line:
    epochs, values = table.index.to_numpy(), table.to_numpy().T
    n = np.isfinite(values).sum(axis=0)
    with quiet():
        mean = np.nanmean(values, axis=0)
    half = half_width(values, spread)
    # On a logarithmic axis a band that reaches below zero is cut a decade below all values.
    bands = (Band(np.maximum(mean - half, least), mean + half),) if np.isfinite(half).any() else ()
    notes = tuple(
        _note(group, *point) for point in zip(epochs.tolist(), mean.tolist(), half.tolist(), n.tolist(), strict=True)
    )
    return Line(group.line, epochs, mean, bands, group.style, notes=notes, note=listed(group.runs["folder"]))


def _note(group: Group, epoch: int, value: float, half: float, n: int) -> str:
    around = "" if math.isnan(half) else f" ± {half:.3g}"
    return f"{group.line}\nepoch {epoch}: {value:.4g}{around}\nn = {n}".lstrip()


def half_width(values: np.ndarray, spread: Around) -> np.ndarray:
    """What stands behind the +- in every column, as `Cell.half_width` has it for one; NaN of less than two values.

    Args:
        values: Shape (runs, points), NaN where a run has no value.
        spread: ``std``, ``ci``, or ``none``, which is NaN.
    """
    n = np.isfinite(values).sum(axis=0)
    with quiet():
        deviation = np.nanstd(values, axis=0, ddof=1) if spread != "none" else np.full(len(n), np.nan)
    deviation[n < 2] = np.nan
    if spread != "ci":
        return deviation
    return np.asarray(t_half_width(deviation, np.maximum(n, 2)))
