"""Tests that compare methods over splits and over data sets, and rank correlations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.05  # of all tests and intervals


@dataclass(frozen=True)
class PairedTest:
    """A paired comparison.

    Attributes:
        difference: The mean difference.
        p: The probability of one as large if there is none; NaN with fewer than two pairs.
        count: The number of pairs.
    """

    difference: float
    p: float
    count: int


def corrected_t_test(differences: ArrayLike, ratio: float) -> PairedTest:
    r"""The corrected resampled t-test of paired differences over splits of one data set.

    .. math:: t = \bar d \Big/ \sqrt{(1/n + n_\text{test} / n_\text{train}) \, s^2}

    with n - 1 degrees of freedom. Splits of one data set share training rows, so their differences
    are not independent; the second term corrects for that. Nadeau & Bengio, *Inference for the
    Generalization Error*, Machine Learning 52, 2003.

    Args:
        differences: One for each split.
        ratio: Test rows for each training row; 0 for splits that share nothing.
    """
    d = np.asarray(differences, dtype=float)
    count = len(d)
    if count < 2:
        return PairedTest(float(d.mean()) if count else math.nan, math.nan, count)
    mean, variance = float(d.mean()), float(d.var(ddof=1))
    if variance == 0:
        return PairedTest(mean, 1.0 if mean == 0 else 0.0, count)
    t = mean / math.sqrt((1 / count + ratio) * variance)
    return PairedTest(mean, float(2 * stats.t.sf(abs(t), count - 1)), count)


def half_width(values: ArrayLike) -> float:
    """Half the width of the 95% confidence interval of a mean; NaN for a single value."""
    x = np.asarray(values, dtype=float)
    if len(x) < 2:
        return math.nan
    quantile = stats.t.ppf(1 - LEVEL / 2, len(x) - 1)
    return float(quantile * x.std(ddof=1) / math.sqrt(len(x)))


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
        low: Lower end of its interval.
        high: Upper end.
        count: The number of pairs.
    """

    value: float
    low: float
    high: float
    count: int

    @property
    def excludes_zero(self) -> bool:
        """True if the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def rank_correlation(
    x: ArrayLike,
    y: ArrayLike,
    sets: ArrayLike,
    within: ArrayLike | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> Correlation:
    """Spearman's rank correlation, with a bootstrap interval over data sets.

    With ``within``, ranks are taken inside each group, and their deviations from the group's mean
    are pooled: what is left of the correlation if the group is known. For an interval the data sets
    are drawn with replacement, as the next data set is what a user asks about; ranks stay those of
    all pairs.

    Args:
        x: A measure; pairs in which it is NaN are left out.
        y: The outcome.
        sets: The data set of each pair.
        within: The group of each pair; by default all are one group.
        draws: Number of draws for the interval.
        seed: Determines the draws.
    """
    measured, outcome = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    known = ~(np.isnan(measured) | np.isnan(outcome))
    measured, outcome = measured[known], outcome[known]
    pairs = len(measured)
    set_of, _ = pd.factorize(np.asarray(sets)[known], sort=True)
    group_of = np.zeros(pairs, dtype=int)
    if within is not None:
        group_of, _ = pd.factorize(np.asarray(within)[known], sort=True)
    rank_x, rank_y = _ranks(measured, group_of), _ranks(outcome, group_of)
    count = int(set_of.max()) + 1 if pairs else 0
    # Sums by data set are enough for any draw of data sets.
    products = (rank_x * rank_y, rank_x**2, rank_y**2, rank_x, rank_y, np.ones(pairs))
    sums = np.stack([np.bincount(set_of, product, count) for product in products], 1)
    value = float(_pearson(sums.sum(0)))
    if count < 2:
        return Correlation(value, math.nan, math.nan, pairs)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(count, size=(draws, count))
    values = _pearson(sums[drawn].sum(1))
    values = values[~np.isnan(values)]
    low, high = math.nan, math.nan
    if len(values):
        low, high = np.quantile(values, [LEVEL / 2, 1 - LEVEL / 2])
    return Correlation(value, float(low), float(high), pairs)


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
