"""Methods against a baseline, over the seeds that they share."""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from gnn_depth.registry import unknown
from gnn_depth.reports.cells import Cell, Labels, Table
from gnn_depth.reports.errors import ReportError

Test: TypeAlias = Literal["wilcoxon", "t"]
TESTS = {"wilcoxon": "Wilcoxon's signed-rank test", "t": "the paired t test"}
# Of five pairs Wilcoxon's p is 2 / 2^5 at least: no difference whatever would be significant.
NEEDED = {"wilcoxon": 6, "t": 2}
SIGNIFICANT = 0.05
ROUNDING = 1e-6  # of a value: metrics are float32, and equal differences of accuracies have to be ties
EXACT = 13  # pairs up to which every assignment of signs is tried


@dataclass(frozen=True)
class Pair:
    """A cell against the baseline's.

    Attributes:
        difference: Mean over the shared seeds of the cell's value minus the baseline's; NaN without any.
        shared: Number of seeds that both have.
        p: Two-sided p value; None where there are too few shared seeds for one.
    """

    difference: float
    shared: int
    p: float | None

    @property
    def significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p is not None and self.p < SIGNIFICANT


@dataclass(frozen=True)
class Comparison:
    """Every cell of a table against the baseline's cell of its row, or of its column.

    Attributes:
        baseline: Label of the baseline.
        test: The test that p values are of.
        pairs: As the table's cells; None for the baseline itself.
    """

    baseline: Labels
    test: Test
    pairs: tuple[tuple[Pair | None, ...], ...]


def paired(table: Table, baseline: str, test: Test = "wilcoxon") -> Comparison:
    """Compare every cell with a baseline over the seeds that both have.

    Args:
        table: Means over seeds.
        baseline: Label of a column or of a row; of several axes, the labels with commas between.
        test: ``wilcoxon``, the signed-rank test, or ``t``, the paired t test.

    Raises:
        ReportError: No column or row has this label, or one of each, or there is no such test.
    """
    if test not in TESTS:
        raise ReportError(unknown("test", test, TESTS))
    wanted = tuple(word.strip() for word in baseline.split(","))
    in_columns, in_rows = wanted in table.columns, wanted in table.rows
    if not in_columns and not in_rows:
        labels = [", ".join(labels) for labels in (*table.columns, *table.rows) if labels]
        raise ReportError(unknown("baseline", baseline, labels))
    if in_columns and in_rows:
        raise ReportError(f"the baseline {baseline!r} is a row and a column: choose rows and columns that differ.")
    lines = []
    for row, line in zip(table.rows, table.cells, strict=True):
        pairs = []
        for column, cell in zip(table.columns, line, strict=True):
            base = table.cell(row, wanted) if in_columns else table.cell(wanted, column)
            pairs.append(None if base is cell else pair(cell, base, test))
        lines.append(tuple(pairs))
    return Comparison(wanted, test, tuple(lines))


def pair(cell: Cell, base: Cell, test: Test) -> Pair:
    """Compare two cells over the seeds that both have."""
    shared = sorted(cell.by_seed.keys() & base.by_seed.keys())
    if not shared:
        return Pair(math.nan, 0, None)
    ours, theirs = (np.array([side.by_seed[seed] for seed in shared]) for side in (cell, base))
    tolerance = ROUNDING * max(np.abs(ours).max(), np.abs(theirs).max())
    enough = len(shared) >= NEEDED[test]
    p = p_value(ours - theirs, test, tolerance) if enough else None
    return Pair(float((ours - theirs).mean()), len(shared), p)


def p_value(differences: np.ndarray, test: Test, tolerance: float) -> float:
    """Two-sided p value of paired differences being around zero; 1 where all of them are zero.

    Args:
        differences: One for each pair.
        test: ``wilcoxon`` or ``t``.
        tolerance: Differences whose sizes are this close are tied, and those this small are zero.
    """
    from scipy import stats

    if np.abs(differences).max() <= tolerance:
        return 1.0
    if test == "t":
        return 0.0 if np.ptp(differences) <= tolerance else float(stats.ttest_1samp(differences, 0).pvalue)
    levels = _levels(differences, tolerance)
    levels = levels[levels != 0]
    if len(levels) == 1:
        return 1.0
    method = stats.PermutationMethod(n_resamples=2**EXACT) if len(levels) <= EXACT else "auto"
    return float(stats.wilcoxon(levels, method=method).pvalue)


def _levels(differences: np.ndarray, tolerance: float) -> np.ndarray:
    """Signed whole numbers in the order of the differences' sizes, equal for ties and 0 for zero."""
    order = np.argsort(np.abs(differences))
    levels = np.empty(len(order), dtype=int)
    levels[order] = np.cumsum(np.diff(np.abs(differences)[order], prepend=0.0) > tolerance)
    return np.sign(differences).astype(int) * levels
