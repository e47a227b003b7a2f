"""The arena's tests against SciPy and against examples of the literature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gnn_depth.arena.statistics import (
    compare_ranks,
    corrected_t_test,
    critical_difference,
    half_width,
    holm,
    mean_correlation,
    pooled_correlation,
)

# Demšar 2006, table 6: AUC of C4.5, with m, with cf, and with both, on 14 data sets.
DEMSAR = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
differences = arrays(float, st.integers(3, 12), elements=st.floats(-1, 1, width=32))


@given(differences)
def test_without_shared_rows_the_corrected_test_is_the_paired_t_test(d):
    if d.std() < 1e-6:
        return
    ours, theirs = corrected_t_test(d, 0), stats.ttest_1samp(d, 0)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-12)
    assert ours.difference == pytest.approx(d.mean())


def test_shared_rows_make_a_difference_less_certain_by_the_published_factor():
    d = np.array([0.02, 0.05, -0.01, 0.04, 0.03])
    # (1/n + n_test/n_train) s^2 with n = 5 and a test set a quarter of the training set.
    t = d.mean() / math.sqrt((0.2 + 0.25) * d.var(ddof=1))
    assert t == pytest.approx(1.68356, abs=1e-4)
    assert corrected_t_test(d, 0.25).p == pytest.approx(2 * stats.t.sf(t, 4))


def test_equal_results_are_no_difference_and_a_single_pair_is_no_test():
    assert corrected_t_test([0.0, 0.0, 0.0], 0.3).p == 1
    assert math.isnan(corrected_t_test([0.1], 0.3).p)
    assert math.isnan(corrected_t_test([0.1], 0.3).detectable())


def test_equal_differences_are_as_uncertain_as_the_rounding_of_the_metric():
    # Three times one row of 50: s^2 = h^2 / 6 with h = 1 / 50.
    t = 0.02 / math.sqrt(0.02**2 / 6 / 3)
    found = corrected_t_test([0.02, 0.02, 0.02], 0, step=0.02)
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2))
    assert found.p > 0.05
    # Where nothing is known of the metric, there is no test.
    assert math.isnan(corrected_t_test([0.5, 0.5, 0.5], 0.3).p)
    # Differences that vary more than rounding keep their own variance.
    d = [0.02, 0.06, -0.04]
    assert corrected_t_test(d, 0, step=0.02) == corrected_t_test(d, 0)


def test_equal_models_differ_by_chance_no_more_often_than_the_level_says():
    draws = np.random.default_rng(0)
    few = 0
    for _ in range(4000):
        # Each of 50 test rows is right for one model alone with probability 0.05.
        rows = draws.binomial(50, 0.05, (2, 3))
        few += corrected_t_test((rows[0] - rows[1]) / 50, 0, step=1 / 50).p <= 0.0025
    assert few <= 4000 * 0.0025


@given(differences, st.floats(0, 1), st.integers(1, 30))
def test_the_detectable_difference_is_the_smallest_that_the_test_finds(d, ratio, comparisons):
    if d.std() < 1e-3:
        return
    limit = corrected_t_test(d, ratio).detectable(comparisons)
    # With the same spread, a difference as large is just found in the first step of Holm's.
    for factor, is_found in ((0.999, False), (1.001, True)):
        shifted = corrected_t_test(d - d.mean() + factor * limit, ratio)
        family = [shifted.p] + [1.0] * (comparisons - 1)
        assert (holm(family)[0] <= 0.05) == is_found


def test_the_interval_of_splits_that_share_rows_is_that_of_the_corrected_test():
    x = np.array([0.71, 0.74, 0.70, 0.79])
    quantile = stats.t.ppf(0.975, 3)
    assert half_width(x, 0.25) == pytest.approx(quantile * x.std(ddof=1) * math.sqrt(0.5))
    edge = x - x.mean() + half_width(x, 0.25)
    assert corrected_t_test(edge, 0.25).p == pytest.approx(0.05)


def test_the_interval_of_a_mean_is_that_of_scipy():
    x = [0.71, 0.74, 0.70, 0.79]
    low, high = stats.t.interval(0.95, 3, np.mean(x), stats.sem(x))
    assert half_width(x) == pytest.approx((high - low) / 2)


def test_holm_agrees_with_its_textbook_example():
    # 0.01, 0.04, 0.03, 0.005: times 3, 1, 2, 4, then made monotone.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    with_nan = holm([0.02, math.nan, 0.5])
    assert with_nan[0] == 0.04
    assert math.isnan(with_nan[1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_rejects_what_the_step_down_procedure_rejects(p):
    adjusted = holm(p)
    order = np.argsort(p, kind="stable")
    expected = set()
    for number, place in enumerate(order):
        if p[place] * (len(p) - number) > 0.05:
            break
        expected.add(int(place))
    assert {place for place, value in enumerate(adjusted) if value <= 0.05} == expected


def test_ranks_and_critical_difference_are_those_of_demsars_example():
    found = compare_ranks(DEMSAR, ["c45", "m", "cf", "m_cf"])
    ranks = dict(zip(found.names, found.ranks, strict=True))
    expected = {"c45": 3.143, "m": 2.000, "cf": 2.893, "m_cf": 1.964}
    assert ranks == pytest.approx(expected, abs=5e-4)
    assert found.p == pytest.approx(stats.friedmanchisquare(*DEMSAR.T).pvalue)
    assert found.critical == pytest.approx(1.25, abs=0.005)
    # With Nemenyi's test none of the four differ by more than the critical difference of 1.25.
    assert found.groups == [["m_cf", "m", "cf", "c45"]]


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_values_are_those_of_demsars_table(methods, q):
    scale = math.sqrt(methods * (methods + 1) / (6 * 7))
    assert critical_difference(methods, 7) == pytest.approx(q * scale, abs=2e-3)


def test_groups_overlap_where_the_ends_differ_and_the_middle_does_not():
    # One method is always first, one always last: 12 sets, ranks 1, 2, 3.
    scores = np.tile([0.3, 0.2, 0.1], (12, 1))
    found = compare_ranks(scores, ["first", "second", "third"])
    assert found.critical < 1
    assert found.groups == []
    few = compare_ranks(scores[:5], ["first", "second", "third"])
    assert 1 < few.critical < 2
    assert few.groups == [["first", "second"], ["second", "third"]]
    with pytest.raises(ValueError, match="three methods"):
        compare_ranks(scores[:, :2], ["first", "second"])


@given(st.integers(0, 10_000), st.integers(4, 40))
def test_the_pooled_rank_correlation_is_spearmans(seed, count):
    draws = np.random.default_rng(seed)
    x, y = draws.integers(0, 9, count), draws.normal(size=count)
    if len(set(x.tolist())) < 2:
        return
    found = pooled_correlation(x, y, draws.integers(0, 3, count))
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert found.pairs == count


def test_the_mean_correlation_and_its_interval_are_those_of_fishers_z_over_the_sets():
    draws = np.random.default_rng(3)
    sets = np.repeat([0, 1, 2, 3, 4], [9, 20, 30, 40, 200])
    x = draws.normal(size=len(sets))
    y = 0.5 * x + draws.normal(size=len(sets))
    z = []
    for name in (1, 2, 3, 4):  # the first has too few pairs
        chosen = sets == name
        z.append(np.arctanh(stats.spearmanr(x[chosen], y[chosen]).statistic))
    found = mean_correlation(x, y, sets)
    assert found.value == pytest.approx(np.tanh(np.mean(z)))
    low, high = stats.t.interval(0.95, 3, np.mean(z), stats.sem(z))
    assert (found.low, found.high) == pytest.approx((np.tanh(low), np.tanh(high)))
    assert found.p == pytest.approx(stats.ttest_1samp(z, 0).pvalue)
    assert (found.sets, found.pairs) == (4, 290)


def test_intervals_over_a_few_sets_exclude_zero_as_rarely_as_they_say():
    draws = np.random.default_rng(0)
    sets = np.repeat(np.arange(7), [60, 60, 50, 40, 30, 12, 12])
    excluded = {"mean": 0, "pooled": 0}
    count = 500
    for _ in range(count):
        # In each set another correlation, 0 in the mean over sets.
        slope = draws.normal(size=7)[sets]
        x = draws.normal(size=len(sets))
        y = slope * x + draws.normal(size=len(sets))
        excluded["mean"] += mean_correlation(x, y, sets).excludes_zero
        excluded["pooled"] += pooled_correlation(x, y, sets).excludes_zero
    # Two standard errors of the simulation are 2 points; a bootstrap over the sets has 12%.
    assert 0.03 < excluded["mean"] / count < 0.07
    assert excluded["pooled"] / count < 0.08


@pytest.mark.parametrize("correlation", [mean_correlation, pooled_correlation])
def test_what_the_group_explains_is_no_correlation_within_it(correlation):
    draws = np.random.default_rng(0)
    depth = np.repeat([2, 8, 32], 200)
    x, y = depth + draws.normal(size=600), depth + draws.normal(size=600)
    sets = np.tile(np.arange(6), 100)
    assert correlation(x, y, sets).value > 0.6
    inside = correlation(x, y, sets, within=depth)
    assert abs(inside.value) < 0.1
    assert not inside.excludes_zero
    both = x + 3 * y
    assert correlation(both, y, sets, within=depth).excludes_zero


@pytest.mark.parametrize("correlation", [mean_correlation, pooled_correlation])
def test_a_correlation_of_one_data_set_alone_is_uncertain(correlation):
    draws = np.random.default_rng(1)
    y = draws.normal(size=400)
    sets = np.repeat([0, 1, 2, 3], 100)
    x = np.where(sets == 0, y, draws.normal(size=400))
    everywhere = correlation(y + draws.normal(size=400), y, sets, sets)
    alone = correlation(x, y, sets, sets)
    assert alone.value > 0.15
    assert everywhere.excludes_zero
    assert alone.low < 0.1 < 0.3 < alone.high


def test_unknown_values_are_left_out():
    x = [1.0, 2.0, math.nan, 3.0]
    found = pooled_correlation(x, [1.0, 2.0, 0.0, 3.0], [0, 0, 1, 1])
    assert (found.value, found.pairs) == (pytest.approx(1.0), 3)
    assert math.isnan(pooled_correlation([1.0, 1.0], [1.0, 2.0], [0, 1]).value)
    assert math.isnan(pooled_correlation([], [], []).value)
    assert math.isnan(mean_correlation(x, x, [0, 0, 0, 0]).value)
    assert math.isnan(mean_correlation([], [], []).value)
