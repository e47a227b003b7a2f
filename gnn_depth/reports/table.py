"""A metric averaged over seeds in the cells of a table."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from gnn_depth.reports import settings
from gnn_depth.reports.settings import ABSENT, Labels, Names, label
from gnn_depth.runs import RESULTS

Spread: TypeAlias = Literal["std", "ci"]
MOST = 6  # options in which single runs may differ to be told apart by them
LEVEL = 0.05  # of all tests and intervals
SPREADS = {"std": "standard deviation", "ci": "95% confidence interval (t)"}


def t_half_width(deviation: float, n: int) -> float:
    r"""Half width of the 95% t interval of n >= 2 values, :math:`t_{0.975, n-1}\, s / \sqrt n`."""
    from scipy.special import stdtrit  # slow to import, and few tables have intervals

    return stdtrit(n - 1, 0.975) * deviation / n**0.5


@dataclass(frozen=True, eq=False)
class Cell:
    """Runs that differ only in their seed, whatever their status."""

    runs: pd.DataFrame
    metric: str

    @cached_property
    def counting(self) -> pd.DataFrame:
        """The runs that enter the mean.

        Diverged runs count with what they reached before, unfinished ones never.
        """
        is_result = self.runs["status"].isin(RESULTS)
        return self.runs[is_result & np.isfinite(self.runs[self.metric])]

    @property
    def n(self) -> int:
        """Number of runs behind the mean."""
        return len(self.counting)

    @cached_property
    def statuses(self) -> Counter[str]:
        """Number of runs of each status."""
        return Counter(self.runs["status"])

    @property
    def results(self) -> int:
        """Number of runs that finished or diverged, with or without a value."""
        return sum(map(self.statuses.__getitem__, RESULTS))

    @property
    def mean(self) -> float:
        """Mean over the runs that count; NaN without any."""
        return statistics.fmean(self.counting[self.metric].tolist() or [math.nan])

    def half_width(self, spread: Spread) -> float | None:
        r"""The number after ±: :math:`s`, or :math:`t_{0.975, n-1}\, s / \sqrt n`.

        None for fewer than two runs.
        """
        if self.n < 2:
            return None
        deviation = statistics.stdev(self.counting[self.metric].tolist())
        if spread == "std":
            return deviation
        return t_half_width(deviation, self.n)

    @cached_property
    def settings(self) -> dict[str, str]:
        """Axes and hyperparameters with their values as text: those of all runs, since these
        differ only in their seed."""
        first = self.runs.iloc[:1]
        known = {name: label(value) for name in settings.settings(first) for value in first[name]}
        return {name: text for name, text in known.items() if text != ABSENT}


@dataclass(frozen=True)
class ResultTable:
    """A cell for every pair of a row and a column."""

    metric: str
    spread: Spread
    names: Labels  # of the axes of rows, then of those of columns
    rows: tuple[Labels, ...]  # and their values
    columns: tuple[Labels, ...]
    cells: Mapping[Labels, Cell]  # by the values of the names, row by row
    # Axes, seed, status, metric and folder of every run behind the table, also of those that do not
    # count.
    runs: pd.DataFrame


def tabulate(
    frame: pd.DataFrame,
    rows: Names | None,
    columns: Names | None = (),
    metric: str | None = None,
    spread: Spread = "std",
    remedy: str = "",
) -> ResultTable:
    """Average a metric over seeds in every cell of a table; without columns it has one column.

    None stands, as columns, for the last axis that varies, or for no column if the runs belong to
    no sweep, and as rows for the others, or for the name where nothing varies. Runs of no sweep
    that differ in many options have a row each, with their folder.

    Rows and columns are in the order of their first appearance in the frame, numbers by size. By
    default the metric is that of the test set by which the runs chose their best epoch. The remedy
    says how to keep apart runs that differ in more than their seed, for the message that refuses
    them.
    """
    row_names = settings.full_names(frame, rows)
    column_names = settings.full_names(frame, columns)
    axes = settings.varying_axes(frame) or frame.attrs["axes"]
    free = [name for name in axes if name not in row_names + column_names]
    if columns is None and frame.attrs["axes"]:
        # One axis at least is for the rows.
        column_names = tuple(free[rows is None :][-1:])
    if rows is None:
        row_names = tuple(name for name in free if name not in column_names) or ("name",)
        if len(row_names) > MOST and not frame.attrs["axes"]:
            row_names = ("folder",)
    names = row_names + column_names
    metric = settings.known_metric(frame, metric)
    remedy = remedy or f"give each a row with {' '.join(['--rows', *row_names])}"
    groups = settings.grouped(frame, names, remedy)
    count = len(row_names)  # labels of rows come first
    row_labels = settings.in_order(labels[:count] for labels in groups)
    column_labels = settings.in_order(labels[count:] for labels in groups)
    cells = {}
    for row, column in product(row_labels, column_labels):
        # Without runs: a combination that nobody ran.
        cells[row + column] = Cell(groups.get(row + column, frame.iloc[:0]), metric)
    own = ["seed", "status", metric, "folder"]
    shown = [name for name in dict.fromkeys([*frame.attrs["axes"], *names]) if name not in own]
    # Int64, as a run without a seed would make floats of all of them.
    runs = pd.concat([cell.runs for cell in cells.values()], ignore_index=True)
    runs = runs[[*shown, *own]].astype({"seed": "Int64"})
    runs[shown] = runs[shown].map(label, na_action="ignore")
    return ResultTable(metric, spread, names, row_labels, column_labels, cells, runs)
