"""Paired comparisons over splits or seeds: the corrected t-test, Holm's correction, and tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from gnn_depth.registry import unknown
from gnn_depth.reports.load import ReportError
from gnn_depth.reports.table import LEVEL, ResultTable

ONE_SPLIT = "over the seeds of one split: another split may differ more"
ROUNDING = 1e-6  # relative, of a metric in float32


@dataclass(frozen=True)
class PairedTest:
    """A paired comparison.

    Attributes:
        difference: The mean difference.
        p: The probability of one as large if there is none; NaN if it cannot be tested.
        count: The number of pairs.
        error: The standard error of the difference; NaN if it cannot be tested.
    """

    difference: float
    p: float
    count: int
    error: float

    @property
    def half_width(self) -> float:
        """Half the width of the 95% confidence interval of the difference."""
        return float(stats.t.ppf(1 - LEVEL / 2, self.count - 1) * self.error)


def corrected_t_test(differences: ArrayLike, ratio: float, step: float = 0.0) -> PairedTest:
    r"""The corrected resampled t-test of paired differences over splits of one data set.

    .. math:: t = \bar d \Big/ \sqrt{(1/n + n_\text{test} / n_\text{train}) \, s^2}

    with n - 1 degrees of freedom. Splits of one data set share training rows, so their differences
    are not independent; the second term corrects for that. Nadeau & Bengio, *Inference for the
    Generalization Error*, Machine Learning 52, 2003.

    With few test rows a few differences can be equal by chance, and :math:`s^2 = 0` then says
    nothing. An accuracy over m rows is a multiple of h = 1/m and stands for any value within h/2 of
    it. This rounding error is uniform, with variance :math:`h^2 / 12`; a difference of two
    accuracies has twice that. So :math:`s^2` is taken to be at least :math:`h^2 / 6`. In a
    simulation of two equal models on 3 splits with 50 test rows each, p was at most 0.0025 several
    times as often as it should be without this floor; with it, less often than it should be. If all
    of 3 independent splits differ by one row, p is 0.05.

    Args:
        differences: One for each split.
        ratio: Test rows for each training row; 0 for splits that share nothing, NaN if unknown.
        step: h, the resolution of the metric. With 0, equal differences cannot be tested.
    """
    d = np.asarray(differences, dtype=float)
    count = len(d)
    mean = float(d.mean()) if count else math.nan
    if count < 2 or (np.ptp(d) == 0 and step == 0):
        return PairedTest(mean, math.nan, count, math.nan)
    variance = max(float(d.var(ddof=1)), step**2 / 6)
    error = math.sqrt((1 / count + ratio) * variance)
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return PairedTest(mean, p, count, error)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values of a family of tests; those that are NaN are not of the family.

    Holm, *A Simple Sequentially Rejective Multiple Test Procedure*, 1979.
    """
    known = [place for place, value in enumerate(p) if not math.isnan(value)]
    adjusted = [math.nan] * len(p)
    largest = 0.0
    for number, place in enumerate(sorted(known, key=lambda place: p[place])):
        largest = max(largest, (len(known) - number) * p[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


def compare(table: ResultTable, axis: str, base: str, ratio: float = math.nan) -> pd.DataFrame:
    """Compare every cell of a table with the one that differs in an axis alone.

    Pairs are the seeds that both cells have. p is NaN for fewer than two pairs, for equal
    differences, and where seeds have data of their own and the ratio is NaN.

    Args:
        table: The means.
        axis: Full name of an axis of its rows or columns.
        base: The value of the axis to compare the others with.
        ratio: For seeds with splits of their own, test rows for each training row; 0 where each
            seed draws new data.

    Returns:
        A line for each comparison: the values of the axes, ``n``, ``difference``, ``half_width`` of
        its 95% interval, ``p``, and ``p_holm``, corrected for all comparisons. The attribute
        ``test`` names the test and says how it treats the seeds' splits, and ``untested`` why a
        line has no p.

    Raises:
        ReportError: The table has no such axis, or no such value.
    """
    if axis not in table.names:
        raise ReportError(unknown("axis of the table", axis, table.names))
    place = table.names.index(axis)
    values = {labels[place] for labels in table.cells}
    if base not in values:
        raise ReportError(unknown(f"value of {axis!r}", base, values))
    lines, untested = [], {}
    test_name = ["paired t-test"]
    for labels, cell in table.cells.items():
        if labels[place] == base:
            continue
        same = (*labels[:place], base, *labels[place + 1 :])
        ours, theirs = (one.counting.dropna(subset="seed") for one in (cell, table.cells[same]))
        pairs = ours.merge(theirs, on="seed", suffixes=("", " of base"))
        values = pairs[[cell.metric, f"{cell.metric} of base"]].to_numpy()
        differences = values[:, 0] - values[:, 1]
        why = (
            "the data may change with the seed: give --ratio, 0 if each seed draws new data or all "
            "have the same, else test rows / training rows"
        )
        of_pairs, data = ratio, pairs["data_sha256 of base"]
        split = f"corrected by --ratio {ratio:g} (Nadeau & Bengio 2003)"
        if data.notna().all() and data.nunique() == 1:
            of_pairs, split = 0.0, ONE_SPLIT
        # Metrics are float32: differences that are equal but for its rounding cannot be tested.
        if len(pairs) and np.ptp(differences) <= ROUNDING * np.abs(values).max():
            of_pairs, why = math.nan, "the same difference in every seed"
        test = corrected_t_test(differences, of_pairs)
        if test.count < 2:
            why = "fewer than two shared seeds"
        if math.isnan(test.p):
            untested[" ".join(labels)] = why
        elif split not in test_name:
            test_name.append(split)
        lines.append([*labels, test.count, test.difference, test.half_width, test.p])
    names = [*table.names, "n", "difference", "half_width", "p"]
    found = pd.DataFrame(lines, columns=names)
    found.attrs |= {"test": ", ".join(test_name), "untested": untested}
    return found.assign(p_holm=holm(found["p"].tolist()))
