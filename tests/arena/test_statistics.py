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
    rank_correlation,
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
    assert corrected_t_test([0.5, 0.5, 0.5], 0.3).p == 0
    assert math.isnan(corrected_t_test([0.1], 0.3).p)


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
    found = rank_correlation(x, y, draws.integers(0, 3, count), draws=10)
    assert found.value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert found.count == count


def test_what_the_group_explains_is_no_correlation_within_it():
    draws = np.random.default_rng(0)
    depth = np.repeat([2, 8, 32], 200)
    x, y = depth + draws.normal(size=600), depth + draws.normal(size=600)
    sets = np.tile(np.arange(6), 100)
    assert rank_correlation(x, y, sets).value > 0.6
    inside = rank_correlation(x, y, sets, within=depth)
    assert abs(inside.value) < 0.1
    assert not inside.excludes_zero
    both = x + 3 * y
    assert rank_correlation(both, y, sets, within=depth).excludes_zero


def test_a_correlation_of_one_data_set_alone_is_uncertain():
    draws = np.random.default_rng(1)
    y = draws.normal(size=400)
    sets = np.repeat([0, 1, 2, 3], 100)
    x = np.where(sets == 0, y, draws.normal(size=400))
    everywhere = rank_correlation(y + draws.normal(size=400), y, sets, within=sets)
    alone = rank_correlation(x, y, sets, within=sets)
    assert alone.value > 0.15
    assert everywhere.excludes_zero
    assert alone.low < 0.1 < 0.3 < alone.high


def test_unknown_values_are_left_out():
    x = [1.0, 2.0, math.nan, 3.0]
    found = rank_correlation(x, [1.0, 2.0, 0.0, 3.0], [0, 0, 1, 1])
    assert (found.value, found.count) == (pytest.approx(1.0), 3)
    assert math.isnan(rank_correlation([1.0, 1.0], [1.0, 2.0], [0, 1]).value)
    assert math.isnan(rank_correlation([], [], []).value)
