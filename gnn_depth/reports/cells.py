"""A table of runs: mean and spread over seeds in every cell, and what could not be counted."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from gnn_depth.runs import RESULTS

Spread: TypeAlias = Literal["std", "ci"]
SPREADS = {"std": "standard deviation", "ci": "95% confidence interval (t)"}
Labels: TypeAlias = tuple[str, ...]  # one value of each axis, as text


def t_half_width(deviation: Any, n: Any) -> Any:
    r"""Half width of the 95% t interval, :math:`t_{0.975, n-1}\, s / \sqrt n`, of numbers or arrays.

    Args:
        deviation: s, the sample standard deviation.
        n: How many values it is of, 2 at least.
    """
    from scipy.special import stdtrit

    return stdtrit(n - 1, 0.975) * deviation / n**0.5


@dataclass(frozen=True)
class Run:
    """What one run gives to a cell.

    Attributes:
        seed: Its seed, if it had one.
        status: finished, diverged, or an accident: failed, interrupted, running.
        value: The metric; NaN where the run has none.
        folder: Where the run is.
    """

    seed: int | None
    status: str
    value: float
    folder: str

    @property
    def counts(self) -> bool:
        """Whether the value belongs into a mean: a diverged run counts with what it had reached, an accident never."""
        return self.status in RESULTS and math.isfinite(self.value)


@dataclass(frozen=True)
class Cell:
    """Runs that differ in their seed alone.

    Attributes:
        runs: All of them, whatever they came to.
        settings: Axes and hyperparameters that they share -> value as text.
    """

    runs: tuple[Run, ...]
    settings: Mapping[str, str]

    @property
    def values(self) -> list[float]:
        """The metric of every run that counts."""
        return [run.value for run in self.runs if run.counts]

    @property
    def by_seed(self) -> dict[int, float]:
        """Seed -> metric, of the runs that count and had a seed."""
        return {run.seed: run.value for run in self.runs if run.counts and run.seed is not None}

    @property
    def n(self) -> int:
        """How many runs count."""
        return len(self.values)

    @property
    def results(self) -> int:
        """How many runs came to a result, a value or not."""
        return sum(run.status in RESULTS for run in self.runs)

    @property
    def diverged(self) -> int:
        """How many runs diverged, whether they count or not."""
        return sum(run.status == "diverged" for run in self.runs)

    @property
    def left_out(self) -> dict[str, int]:
        """Status -> number of the runs that came to no result."""
        return dict(Counter(run.status for run in self.runs if run.status not in RESULTS))

    @property
    def mean(self) -> float:
        """Mean over the runs that count; NaN without one."""
        return statistics.fmean(self.values) if self.values else math.nan

    def half_width(self, spread: Spread) -> float | None:
        r"""What stands behind the +- : :math:`s`, or :math:`t_{0.975, n-1}\, s / \sqrt n`; None of less than two runs.

        Args:
            spread: ``std``, the sample standard deviation s, or ``ci``, the half width of the 95% t interval.
        """
        if self.n < 2:
            return None
        deviation = statistics.stdev(self.values)
        return deviation if spread == "std" else float(t_half_width(deviation, self.n))


@dataclass(frozen=True)
class Table:
    """Cells at every pair of a row and a column.

    Attributes:
        metric: What was averaged.
        spread: What stands behind the +-.
        row_names, column_names: Names of the axes.
        rows, columns: Their values, as text.
        cells: A line of cells a row.
        axes: Names of the axes of the runs' sweeps.
    """

    metric: str
    spread: Spread
    row_names: Labels
    column_names: Labels
    rows: tuple[Labels, ...]
    columns: tuple[Labels, ...]
    cells: tuple[tuple[Cell, ...], ...]
    axes: Labels

    def cell(self, row: Labels, column: Labels) -> Cell:
        """The cell of a row and a column."""
        return self.cells[self.rows.index(row)][self.columns.index(column)]

    def labels(self, row: Labels, column: Labels) -> dict[str, str]:
        """Axis -> label, of a row and a column."""
        return dict(zip((*self.row_names, *self.column_names), (*row, *column), strict=True))

    def each(self) -> Iterator[tuple[Labels, Labels, Cell]]:
        """Every row, column and cell, row by row."""
        for row, line in zip(self.rows, self.cells, strict=True):
            for column, cell in zip(self.columns, line, strict=True):
                yield row, column, cell
