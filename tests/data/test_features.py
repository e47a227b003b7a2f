"""Rows that sum to one and edges in both directions."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.data.features import coalesce, normalize_rows

EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)))


def test_sizes_of_a_row_sum_to_one_and_rows_of_zeros_stay():
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 1.0], [1e-30, 0.0]])
    expected = torch.tensor([[0.25, 0.75], [0.0, 0.0], [-0.5, 0.5], [1.0, 0.0]])
    torch.testing.assert_close(normalize_rows(x), expected)


@given(EDGES, st.booleans())
def test_coalesced_edges_are_the_set_of_the_edges(edges, undirected):
    index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    wanted = set(edges) | ({(target, source) for source, target in edges} if undirected else set())
    found = list(map(tuple, coalesce(index, 6, undirected).T.tolist()))
    assert len(found) == len(set(found))
    assert set(found) == wanted
