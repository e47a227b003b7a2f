"""Tests that compare methods over splits and over data sets, and rank correlations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.05  # of all tests and intervals
FEWEST_PAIRS = 10  # of a data set, for a correlation of its own
LARGEST = 0.9999  # correlation that has a finite z


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

    def detectable(self, comparisons: int = 1) -> float:
        """The smallest difference that the test finds with this standard error: two-sided, in the
        first step of Holm's correction over so many comparisons."""
        if math.isnan(self.error):
            return math.nan
        level = LEVEL / comparisons
        return float(stats.t.isf(level / 2, self.count - 1) * self.error)


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
        ratio: Test rows for each training row; 0 for splits that share nothing.
        step: h, the resolution of the metric. With 0, equal differences cannot be tested.
    """
    d = np.asarray(differences, dtype=float)
    count = len(d)
    mean = float(d.mean()) if count else math.nan
    if count < 2:
        return PairedTest(mean, math.nan, count, math.nan)
    variance = max(float(d.var(ddof=1)), step**2 / 6)
    if variance == 0:
        p = 1.0 if mean == 0 else math.nan
        return PairedTest(mean, p, count, math.nan)
    error = math.sqrt((1 / count + ratio) * variance)
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return PairedTest(mean, p, count, error)


def half_width(values: ArrayLike, ratio: float = 0.0) -> float:
    """Half the width of the 95% confidence interval of a mean; NaN for a single value.

    Args:
        values: The values, one for each split.
        ratio: As in :func:`corrected_t_test`.
    """
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return math.nan
    quantile = stats.t.ppf(1 - LEVEL / 2, len(x) - 1)
    return float(quantile * x.std(ddof=1) * math.sqrt(1 / len(x) + ratio))


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


@dataclass(frozen=True)
class RankComparison:
    """Methods compared by their ranks over data sets.

    Attributes:
        names: The methods, the best mean rank first.
        ranks: Their mean ranks; 1 is the best.
        p: Of Friedman's test that all are equal.
        critical: Nemenyi's critical difference: two methods whose mean ranks are nearer than this
            cannot be told apart.
        groups: The largest groups of methods that cannot be told apart.
        sets: The number of data sets.
    """

    names: list[str]
    ranks: list[float]
    p: float
    critical: float
    groups: list[list[str]]
    sets: int


def compare_ranks(scores: NDArray, names: Sequence[str]) -> RankComparison:
    r"""Friedman's test over data sets with Nemenyi's critical difference.

    .. math:: CD = \frac{q_\alpha}{\sqrt 2} \sqrt{\frac{k (k + 1)}{6 N}}

    for k methods and N data sets, with the studentised range q. Demšar, *Statistical Comparisons of
    Classifiers over Multiple Data Sets*, JMLR 7, 2006.

    Args:
        scores: Higher is better, shape (sets, methods).
        names: The methods.

    Raises:
        ValueError: There are fewer than two sets or three methods.
    """
    count, methods = scores.shape
    if count < 2 or methods < 3:
        raise ValueError(
            f"ranks are compared over two sets or more and three methods or more, not {count} and "
            f"{methods}."
        )
    ranks = stats.rankdata(-scores, axis=1).mean(0)
    with np.errstate(invalid="ignore"):  # all scores equal: the statistic is 0 / 0
        p = float(stats.friedmanchisquare(*scores.T).pvalue)
    critical = critical_difference(methods, count)
    order = np.argsort(ranks, kind="stable")
    ordered = [float(ranks[place]) for place in order]
    ordered_names = [names[place] for place in order]
    groups = []
    reached = 0
    for first in range(methods):
        last = first
        while last + 1 < methods and ordered[last + 1] - ordered[first] <= critical:
            last += 1
        if last > first and last + 1 > reached:
            groups.append(ordered_names[first : last + 1])
            reached = last + 1
    return RankComparison(ordered_names, ordered, p, critical, groups, count)


def critical_difference(methods: int, sets: int) -> float:
    """Nemenyi's critical difference of mean ranks."""
    quantile = stats.studentized_range.ppf(1 - LEVEL, methods, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(methods * (methods + 1) / (6 * sets)))


@dataclass(frozen=True)
class Correlation:
    """A rank correlation.

    Attributes:
        value: From -1 to 1; NaN if it is undefined.
        low: Lower end of its 95% interval; NaN if it has none.
        high: Upper end.
        p: The probability of one as far from 0 if it is 0 in the mean over data sets.
        pairs: The number of pairs.
        sets: The number of data sets.
    """

    value: float
    low: float
    high: float
    p: float
    pairs: int
    sets: int

    @property
    def excludes_zero(self) -> bool:
        """True if the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def mean_correlation(
    x: ArrayLike, y: ArrayLike, sets: ArrayLike, within: ArrayLike | None = None
) -> Correlation:
    """The mean over data sets of Spearman's rank correlation in each of them.

    The mean and its t interval are of Fisher's z, the inverse hyperbolic tangent. Data sets are the
    sample, as the question is about the next one. A bootstrap over so few sets is too sure: in a
    simulation of eight sets without a correlation its 95% intervals exclude 0 in 12% of the cases.

    Args:
        x: A measure; pairs in which it is NaN are left out.
        y: The outcome.
        sets: The data set of each pair; one with fewer than 10 pairs is left out.
        within: The group of each pair: ranks are taken inside each group of a set.
    """
    groups = [np.asarray(sets)]
    if within is not None:
        groups.append(np.asarray(within))
    sums = _sums(x, y, sets, groups)
    sums = sums[sums[:, -1] >= FEWEST_PAIRS]
    sums = sums[~np.isnan(_pearson(sums))]
    z = _fisher(_pearson(sums))
    count, pairs = len(z), int(sums[:, -1].sum())
    if count == 0:
        return Correlation(math.nan, math.nan, math.nan, math.nan, pairs, count)
    mean, error = float(z.mean()), math.nan
    if count > 1:
        error = float(z.std(ddof=1)) / math.sqrt(count)
    return _with_interval(math.tanh(mean), mean, error, pairs, count)


def pooled_correlation(
    x: ArrayLike, y: ArrayLike, sets: ArrayLike, within: ArrayLike | None = None
) -> Correlation:
    """Spearman's rank correlation over all pairs.

    With ``within``, ranks are taken inside each group, and their deviations from the group's mean
    are pooled: what is left of the correlation if the group is known. The interval is that of a
    jackknife that leaves out one data set at a time, on the scale of Fisher's z; ranks stay those
    among all sets.

    Args:
        x: A measure; pairs in which it is NaN are left out.
        y: The outcome.
        sets: The data set of each pair.
        within: The group of each pair; by default all are one group.
    """
    sums = _sums(x, y, sets, [] if within is None else [np.asarray(within)])
    total, count = sums.sum(0), len(sums)
    value, error = float(_pearson(total)), math.nan
    if count > 1:
        without_one = _fisher(_pearson(total - sums))
        error = math.sqrt((count - 1) * float(without_one.var()))
    return _with_interval(value, float(_fisher(value)), error, int(total[-1]), count)


def _sums(x: ArrayLike, y: ArrayLike, sets: ArrayLike, groups: Sequence[NDArray]) -> NDArray:
    """For each data set the sums of products, squares, values and counts of the ranks.

    Args:
        x: A measure; pairs in which it is NaN are left out.
        y: The outcome.
        sets: The data set of each pair.
        groups: What pairs have in common that are ranked together.
    """
    measured, outcome = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = ~(np.isnan(measured) | np.isnan(outcome))
    set_of, names = pd.factorize(np.asarray(sets)[known], sort=True)
    together = pd.DataFrame(dict(enumerate([np.zeros(len(known)), *groups])))[known]
    group_of = together.groupby(list(together)).ngroup().to_numpy()
    rank_x, rank_y = _ranks(measured[known], group_of), _ranks(outcome[known], group_of)
    products = (rank_x * rank_y, rank_x**2, rank_y**2, rank_x, rank_y, np.ones(len(rank_x)))
    return np.stack([np.bincount(set_of, product, len(names)) for product in products], 1)


def _fisher(correlation: ArrayLike) -> NDArray:
    """Fisher's z; finite for a correlation of 1, too."""
    return np.arctanh(np.clip(correlation, -LARGEST, LARGEST))


def _with_interval(value: float, z: float, error: float, pairs: int, sets: int) -> Correlation:
    """A correlation with the t interval of its z."""
    if math.isnan(error) or math.isnan(z):
        return Correlation(value, math.nan, math.nan, math.nan, pairs, sets)
    width = stats.t.ppf(1 - LEVEL / 2, sets - 1) * error
    p = 0.0  # equal on all sets: a correlation without error, or none
    if error > 0:
        p = float(2 * stats.t.sf(abs(z) / error, sets - 1))
    elif z == 0:
        p = 1.0
    return Correlation(value, math.tanh(z - width), math.tanh(z + width), p, pairs, sets)


def _ranks(x: NDArray, group_of: NDArray) -> NDArray:
    """Ranks inside each group, from -1/2 to 1/2 and with mean 0, so that groups of any size are
    pooled."""
    ranks = pd.Series(x).groupby(group_of).rank().to_numpy()
    size = np.bincount(group_of)[group_of]
    return (ranks - (size + 1) / 2) / size


def _pearson(sums: NDArray) -> NDArray:
    """The correlation from sums of products, squares, values and counts, on the last axis."""
    xy, xx, yy, x, y, count = np.moveaxis(np.asarray(sums, dtype=float), -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = xy - x * y / count
        spread = (xx - x**2 / count) * (yy - y**2 / count)
        found = covariance / np.sqrt(np.where(spread > 1e-18, spread, np.nan))
    return np.asarray(found)
