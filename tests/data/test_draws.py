"""Random numbers that are the same everywhere."""

from gnn_depth.data.draws import Draws


def test_the_numbers_are_those_of_every_machine():
    draws = Draws(0, "test")
    assert draws.permutation(8).tolist() == [5, 7, 1, 0, 4, 2, 3, 6]
    assert draws.integers(1000, 5).tolist() == [914, 316, 399, 31, 774]
    assert draws.uniform(2).tolist() == [0.8229269835501368, 0.018209950388504925]
