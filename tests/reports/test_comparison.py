"""Paired tests against SciPy and against examples of the literature."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from gnn_depth.reports import ReportError, read_runs
from gnn_depth.reports.comparison import compare, corrected_t_test, holm
from gnn_depth.reports.sheets import comparison_sheet
from gnn_depth.reports.table import tabulate

differences = arrays(float, st.integers(3, 12), elements=st.floats(-1, 1, width=32))


@given(differences.filter(lambda d: d.std() >= 1e-6))
def test_without_shared_rows_the_corrected_test_is_the_paired_t_test(d):
    ours = corrected_t_test(d, 0)
    assert ours.p == pytest.approx(stats.ttest_1samp(d, 0).pvalue, rel=1e-6, abs=1e-12)
    assert ours.difference == pytest.approx(d.mean())


def test_shared_rows_make_a_difference_less_certain_by_the_published_factor():
    d = np.array([0.02, 0.05, -0.01, 0.04, 0.03])
    # (1/n + n_test/n_train) s^2 with n = 5 and a test set a quarter of the training set.
    t = d.mean() / math.sqrt((0.2 + 0.25) * d.var(ddof=1))
    assert t == pytest.approx(1.68356, abs=1e-4)
    assert corrected_t_test(d, 0.25).p == pytest.approx(2 * stats.t.sf(t, 4))


def test_equal_differences_are_as_uncertain_as_the_rounding_of_the_metric():
    # Three times one row of 50: s^2 = h^2 / 6 with h = 1 / 50.
    t = 0.02 / math.sqrt(0.02**2 / 6 / 3)
    found = corrected_t_test([0.02, 0.02, 0.02], 0, step=0.02)
    assert found.p == pytest.approx(2 * stats.t.sf(t, 2))
    assert found.p > 0.05
    # Where nothing is known of the metric, or of one pair, there is no test.
    for equal in ([0.5, 0.5, 0.5], [0.0, 0.0, 0.0], [0.1]):
        assert math.isnan(corrected_t_test(equal, 0.3).p)
    # Differences that vary more than rounding keep their own variance.
    d = [0.02, 0.06, -0.04]
    assert corrected_t_test(d, 0, step=0.02) == corrected_t_test(d, 0)


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


VALUES = {
    ("none", 2): [0.50, 0.52, 0.51, 0.55],
    ("pair", 2): [0.60, 0.66, 0.58, 0.61],
    ("none", 10): [0.30, 0.35, 0.31],
    ("pair", 10): [0.31, 0.30, 0.36],
    ("layer", 2): [0.51, 0.53, 0.52, 0.56],
    ("layer", 10): [0.5],
}


def compared(run, runs, *ratios, same_data=True):
    for (norm, depth), values in VALUES.items():
        for seed, value in enumerate(values):
            data = {"data_sha256": "one" if same_data else f"split {seed}"}
            data["per_seed"] = [] if same_data else ["data.split_index"]
            run(float(np.float32(value)), seed, norm=norm, depth=depth, result=data)
    table = tabulate(read_runs(runs), ["depth"], ["norm"])
    found = [compare(table, "norm", "none", ratio) for ratio in ratios]
    return [one.set_index(["norm", "depth"]) for one in found]


def test_other_values_are_compared_with_one_over_the_seeds_that_both_have(run, runs):
    (found,) = compared(run, runs, math.nan)
    sheet = comparison_sheet(found.reset_index(), "val_acc", "norm=none")
    assert "seeds of one split" in sheet.notes[0]
    verdicts = sheet.frame.set_index(["norm", "depth"])["at 5%"]
    assert verdicts["pair"].to_dict() == {"2": "higher", "10": "undecided"}
    assert set(verdicts["layer"]) == {"not tested"}
    backwards = compare(tabulate(read_runs(runs), ["depth"], ["norm"]), "norm", "pair")
    assert "lower" in comparison_sheet(backwards, "val_acc", "norm=pair").frame["at 5%"].tolist()
    assert sheet.notes[-2:] == [
        "Not tested: 2 layer; the same difference in every seed.",
        "Not tested: 10 layer; fewer than two shared seeds.",
    ]
    pairs = [("pair", "2"), ("layer", "2"), ("pair", "10"), ("layer", "10")]
    assert [found["n"][pair] for pair in pairs] == [4, 4, 3, 1]
    tested = []
    for depth in (2, 10):
        pair, none = VALUES["pair", depth], VALUES["none", depth]
        line = found.loc["pair", str(depth)]
        test = stats.ttest_rel(pair, none)
        low, high = test.confidence_interval(0.95)
        assert line["difference"] == pytest.approx(np.mean(pair) - np.mean(none), rel=1e-4)
        assert line["half_width"] == pytest.approx((high - low) / 2, rel=1e-4)
        assert line["p"] == pytest.approx(test.pvalue, rel=1e-4)
        tested.append(test.pvalue)
    assert found.loc["pair", "2"]["p_holm"] == pytest.approx(2 * min(tested), rel=1e-4)


def test_there_is_no_p_where_rounding_alone_varies_or_pairs_are_missing(run, runs):
    (found,) = compared(run, runs, math.nan)
    for depth in ("2", "10"):
        line = found.loc["layer", depth]
        assert line[["half_width", "p", "p_holm"]].isna().all()
    assert found.loc["layer", "2"]["difference"] == pytest.approx(0.01, rel=1e-4)


def test_seeds_with_splits_of_their_own_need_the_ratio(run, runs):
    unknown, known = compared(run, runs, math.nan, 0.25, same_data=False)
    assert unknown["p"].isna().all()
    notes = comparison_sheet(unknown.reset_index(), "val_acc", "norm=none").notes
    assert "Not tested: 2 pair; 10 pair; the data may change" in "".join(notes)
    assert not any("Undecided" in note for note in notes)
    assert known.attrs["test"] > unknown.attrs["test"] == "paired t-test"
    line = known.loc["pair", "2"]
    differences = np.subtract(VALUES["pair", 2], VALUES["none", 2])
    expected = corrected_t_test(differences, 0.25)
    assert line["p"] == pytest.approx(expected.p, rel=1e-4)
    assert line["half_width"] == pytest.approx(stats.t(3).ppf(0.975) * expected.error, rel=1e-4)


def test_an_unknown_axis_or_value_is_refused(table):
    with pytest.raises(ReportError, match="'nrom'.*'norm'"):
        compare(table, "nrom", "none")
    with pytest.raises(ReportError, match="value of 'norm' 'nnoe'.*'none'"):
        compare(table, "norm", "nnoe")
