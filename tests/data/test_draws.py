"""Random numbers that are the same everywhere."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data.draws import Draws

SEEDS = st.integers(0, 2**63)


def test_the_numbers_are_those_of_every_machine():
    draws = Draws(0, "test")
    assert draws.permutation(8).tolist() == [5, 7, 1, 0, 4, 2, 3, 6]
    assert draws.integers(1000, 5).tolist() == [914, 316, 399, 31, 774]
    assert draws.uniform(2).tolist() == [0.8229269835501368, 0.018209950388504925]


@given(SEEDS, st.integers(0, 50), st.integers(1, 2**53 - 1))
def test_permutations_have_every_number_once_and_integers_stay_below_their_bound(seed, count, high):
    assert sorted(Draws(seed, "a").permutation(count).tolist()) == list(range(count))
    numbers = Draws(seed, "a").integers(high, 100)
    assert 0 <= numbers.min() <= numbers.max() < high


def test_weighted_draws_follow_the_weights_and_never_take_weight_zero():
    ends = np.cumsum([0, 1, 0, 3, 0])
    counts = np.bincount(Draws(0, "a").weighted(ends, 40_000), minlength=5)
    assert counts[[0, 2, 4]].tolist() == [0, 0, 0]
    # Four standard deviations of a binomial of 40,000 draws with p = 3/4.
    assert abs(counts[3] - 30_000) < 4 * (40_000 * 3 / 16) ** 0.5
