"""Paired tests against SciPy and against examples of the literature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gnn_depth.reports.comparison import corrected_t_test, half_width, holm

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
