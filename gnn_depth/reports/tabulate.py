"""Runs grouped into the cells of a table."""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence

import pandas as pd

from gnn_depth.registry import unknown
from gnn_depth.reports.cells import SPREADS, Cell, Labels, Run, Spread, Table
from gnn_depth.reports.errors import ReportError
from gnn_depth.reports.mixing import check_one_experiment
from gnn_depth.reports.settings import ABSENT, axes, called, label, metrics, number, settings, varying

METRIC = "test_acc_at_best_val"


def tabulate(
    frame: pd.DataFrame,
    rows: str | Sequence[str],
    columns: str | Sequence[str] = (),
    metric: str = METRIC,
    spread: Spread = "std",
) -> Table:
    """Average a metric over seeds in every cell of a table.

    Rows and columns stand in the order of their first appearance in the frame, numbers by size.

    Args:
        frame: Runs, as `load` gives them.
        rows: Axis that the rows are of, or several, by their names or last words.
        columns: Axis that the columns are of, or several; without any there is one column.
        metric: What is averaged.
        spread: What stands behind the +-: ``std``, the sample standard deviation, or ``ci``, the 95% t interval.

    Raises:
        ReportError: An axis, the metric or the spread does not exist, or the runs of a cell differ in more than the
            seed.
    """
    row_names, column_names = _names(frame, rows), _names(frame, columns)
    names = (*row_names, *column_names)
    if not row_names or len(set(names)) < len(names):
        raise ReportError(
            f"rows and columns are of different axes, and rows of at least one, not {rows} and {columns}."
        )
    _check_metric(frame, metric)
    if spread not in SPREADS:
        raise ReportError(unknown("spread", spread, SPREADS))
    row_of, column_of = labels_of(frame, row_names), labels_of(frame, column_names)
    groups: dict[tuple[Labels, Labels], list[int]] = {}
    for run, place in enumerate(zip(row_of, column_of, strict=True)):
        groups.setdefault(place, []).append(run)
    check_one_experiment(frame, groups.values(), names)
    cells = dict(zip(groups, _cells(frame, groups.values(), metric), strict=True))
    row_labels, column_labels = in_order(row_of), in_order(column_of)
    grid = tuple(tuple(cells.get((row, column), Cell((), {})) for column in column_labels) for row in row_labels)
    return Table(metric, spread, row_names, column_names, row_labels, column_labels, grid, tuple(axes(frame)))


def arrange(
    frame: pd.DataFrame, rows: Sequence[str] | None, columns: Sequence[str] | None
) -> tuple[Sequence[str], Sequence[str]]:
    """Rows and columns where somebody did not say: of the axes that vary the last for columns, the others for rows.

    Args:
        frame: Runs, as `load` gives them.
        rows: Axes of the rows, if they are known.
        columns: Axes of the columns, if they are known.

    Raises:
        ReportError: The runs are of no sweep, so that there are no axes to choose.
    """
    named = [called(frame, word) for word in (*(rows or ()), *(columns or ()))]
    free = [name for name in varying(frame, axes(frame)) or axes(frame) if name not in named]
    if rows is None and not free:
        varied = ["name", *varying(frame, settings(frame))]
        raise ReportError(f"--rows is needed: these runs have no further axes. Available: {', '.join(varied)}.")
    if columns is None:
        keep = 1 if rows is None else 0  # rows need an axis, columns do not
        columns = free[keep:][-1:]
    return (rows if rows is not None else [name for name in free if name not in columns]), columns


def _names(frame: pd.DataFrame, words: str | Sequence[str]) -> Labels:
    return tuple(called(frame, word) for word in ([words] if isinstance(words, str) else words))


def _check_metric(frame: pd.DataFrame, metric: str) -> None:
    if not metrics(frame):
        counts = ", ".join(f"{count} {status}" for status, count in frame["status"].value_counts().items())
        raise ReportError(f"no run has a metric yet: {counts}.")
    if metric not in metrics(frame):
        raise ReportError(unknown("metric", metric, metrics(frame)))


def labels_of(frame: pd.DataFrame, names: Sequence[str]) -> list[Labels]:
    """The values of some axes, of every run."""
    columns = [frame[name].map(label).tolist() for name in names]
    return [tuple(values) for values in zip(*columns, strict=True)] if names else [()] * len(frame)


def in_order(labels: Iterable[Labels]) -> tuple[Labels, ...]:
    """Different ones, in the order of first appearance, an axis of numbers by size; no value at all comes last."""
    different = list(dict.fromkeys(labels))
    ranks = [_ranks(list(dict.fromkeys(values))) for values in zip(*different, strict=True)]
    return tuple(sorted(different, key=lambda values: [rank[value] for rank, value in zip(ranks, values, strict=True)]))


def _ranks(values: list[str]) -> dict[str, float]:
    numbers = {value: known for value in values if (known := number(value)) is not None}
    numeric = set(values) - set(numbers) <= {ABSENT}
    ranks = numbers if numeric else {value: float(place) for place, value in enumerate(values)}
    return ranks | {ABSENT: math.inf}


def _cells(frame: pd.DataFrame, groups: Collection[Sequence[int]], metric: str) -> Iterator[Cell]:
    columns = (frame[name].tolist() for name in ("seed", "status", metric, "folder"))
    runs = [
        Run(None if math.isnan(seed) else int(seed), status, value, folder)
        for seed, status, value, folder in zip(*columns, strict=True)
    ]
    first = frame.iloc[[group[0] for group in groups]]
    texts = {name: first[name].map(label).tolist() for name in settings(frame)}
    for place, group in enumerate(groups):
        shared = {name: values[place] for name, values in texts.items() if values[place] != ABSENT}
        yield Cell(tuple(runs[run] for run in group), shared)
