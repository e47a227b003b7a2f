import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnn_depth.reports import ReportError
from gnn_depth.reports.cells import Cell, Table
from gnn_depth.reports.compare import p_value, pair, paired
from tests.reports.conftest import cell


def one_row(**cells: Cell) -> Table:
    """A table of one row and a column for each cell."""
    columns = tuple((name,) for name in cells)
    return Table("test/acc", "std", ("depth",), ("norm",), (("2",),), columns, (tuple(cells.values()),), ())


def signed_rank_p(differences: list[float]) -> float:
    """Wilcoxon's two-sided p from its definition: all assignments of signs to the ranks of what is not zero."""
    sizes = [abs(difference) for difference in differences if difference]
    ranks = [sum(other < size for other in sizes) + (sum(other == size for other in sizes) + 1) / 2 for size in sizes]
    positive = sum(rank for rank, d in zip(ranks, [d for d in differences if d]) if d > 0)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=len(ranks))]
    below = np.mean([total <= positive for total in sums])
    above = np.mean([total >= positive for total in sums])
    return min(1.0, 2 * min(below, above))


@settings(deadline=None, max_examples=30)  # scipy.stats takes a second to import
@given(st.lists(st.integers(-4, 4), min_size=6, max_size=9))
def test_wilcoxons_p_is_that_of_its_definition_with_ties_and_zeros(nodes: list[int]):
    expected = signed_rank_p(nodes) if any(nodes) else 1.0
    assert p_value(np.array(nodes) / 1000, "wilcoxon", 1e-6) == pytest.approx(expected)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(600, 800), st.integers(-5, 5)), min_size=6, max_size=6))
def test_noise_of_single_precision_breaks_no_ties(pairs: list[tuple[int, int]]):
    base = [float(np.float32(nodes / 1000)) for nodes, _ in pairs]
    ours = [float(np.float32((nodes + more) / 1000)) for nodes, more in pairs]
    differences = [more for _, more in pairs]
    expected = signed_rank_p(differences) if any(differences) else 1.0
    assert pair(cell(*ours), cell(*base), "wilcoxon").p == pytest.approx(expected)


def test_the_paired_t_test_by_hand():
    # differences 1, 2, 3: mean 2, s = 1, t = 2 sqrt(3); for two degrees of freedom p = 1 - t / sqrt(t^2 + 2)
    assert p_value(np.array([1.0, 2.0, 3.0]), "t", 0.0) == pytest.approx(1 - np.sqrt(12 / 14))


def test_equal_differences_leave_no_doubt_and_none_at_all_no_effect():
    assert p_value(np.full(5, 0.01), "t", 1e-6) == 0.0
    assert p_value(np.zeros(6), "t", 0.0) == p_value(np.zeros(6), "wilcoxon", 0.0) == 1.0


@pytest.mark.parametrize("test", ["wilcoxon", "t"])
def test_many_pairs_are_answered_at_once(test: str):
    differences = np.random.default_rng(0).normal(1, 1, 100)
    assert p_value(differences, test, 1e-6) < 1e-6


def test_only_shared_seeds_are_compared():
    ours, base = cell(0.5, 0.75, 1.0, first_seed=1), cell(0.25, 0.25, 0.5, first_seed=0)
    found = pair(ours, base, "t")
    assert (found.shared, found.difference) == (2, ((0.5 - 0.25) + (0.75 - 0.5)) / 2)


def test_too_few_shared_seeds_have_no_p_value():
    base = cell(*[0.5] * 6)
    assert pair(cell(*[0.6] * 5), base, "wilcoxon").p is None
    assert pair(cell(*[0.6] * 6), base, "wilcoxon").p == pytest.approx(2 / 2**6)
    assert pair(cell(0.6), base, "t").p is None
    nothing = pair(cell(0.6, first_seed=9), base, "t")
    assert (nothing.shared, nothing.p, nothing.significant) == (0, None, False)


def test_a_baseline_is_a_column_or_a_row():
    table = one_row(none=cell(0.5, 0.5), pair=cell(0.75, 1.0))
    by_column = paired(table, "none", "t")
    assert by_column.pairs[0][0] is None
    assert by_column.pairs[0][1].difference == 0.375
    assert paired(table, "2", "t").pairs == ((None, None),)


def test_a_baseline_that_is_none_is_answered():
    table = one_row(none=cell(0.5), pair=cell(0.5))
    with pytest.raises(ReportError, match=r"unknown baseline 'nnoe'. Did you mean 'none'\? Available: 2, none, pair"):
        paired(table, "nnoe")
    twice = one_row(**{"2": cell(0.5)})
    with pytest.raises(ReportError, match="'2' is a row and a column"):
        paired(twice, "2")
    with pytest.raises(ReportError, match=r"unknown test 'wilcoxn'. Did you mean 'wilcoxon'"):
        paired(table, "none", "wilcoxn")
