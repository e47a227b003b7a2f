import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth import csr
from gnn_depth.graph import Graph
from tests.test_graph import edge_lists


def tensors_of(rows):
    return {name: value for name, value in vars(rows).items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("heads", [1, 2])
def test_indices_are_int32_until_a_count_does_not_fit(graph, heads, monkeypatch):
    narrow = graph.rows(heads)
    assert {value.dtype for value in tensors_of(narrow).values()} == {torch.int32}
    assert graph.edge_ids.dtype == torch.int32
    for longest in (graph.num_edges * heads, graph.num_edges * heads - 1):
        monkeypatch.setattr(csr, "LONGEST_INT32", longest)
        again = Graph(graph.edge_index, graph.num_nodes)
        wide = tensors_of(again.rows(heads))
        dtype = torch.int32 if longest == graph.num_edges * heads else torch.int64
        assert {value.dtype for value in wide.values()} == {dtype}
        assert all(
            torch.equal(wide[name].long(), value.long())
            for name, value in tensors_of(narrow).items()
        )
        if heads == 1:
            assert again.edge_ids.dtype == dtype


def test_int64_indices_give_the_same_sums(graph, monkeypatch):
    from gnn_depth.nn.functional import aggregate, segment_sum

    weights, x = torch.randn(graph.num_edges, 2), torch.randn(9, 2, 3)
    expected = aggregate(weights, x, graph), segment_sum(weights, graph)
    monkeypatch.setattr(csr, "LONGEST_INT32", 1)
    wide = Graph(graph.edge_index, graph.num_nodes)
    assert wide.rows(2).ptr.dtype == wide.edge_ids.dtype == torch.int64
    assert torch.equal(aggregate(weights, x, wide), expected[0])
    assert torch.equal(segment_sum(weights, wide), expected[1])


@given(edge_lists(), st.integers(1, 4))
def test_rows_of_heads_hold_every_edge_of_every_head_by_target_and_by_source(drawn, heads):
    graph = Graph(*drawn)
    rows = graph.rows(heads)
    pairs = [
        (int(t), h, e, int(s)) for e, (s, t) in enumerate(graph.edge_index.T) for h in range(heads)
    ]
    by_target = sorted(pairs)
    place = range(len(pairs)) if rows.order is None else rows.order.tolist()
    assert [e * heads + h for _, h, e, _ in by_target] == list(place)
    assert [s * heads + h for _, h, _, s in by_target] == rows.source.tolist()
    by_source = sorted((s, h, e, t) for t, h, e, s in pairs)
    assert [e * heads + h for _, h, e, _ in by_source] == rows.transposed_order.tolist()
    assert [t * heads + h for _, h, _, t in by_source] == rows.transposed_target.tolist()
    assert rows.inverse is None or rows.order[rows.inverse.long()].tolist() == list(
        range(len(pairs))
    )
    for ptr, sorted_pairs in ((rows.ptr, by_target), (rows.transposed_ptr, by_source)):
        counts = torch.bincount(
            torch.tensor([n * heads + h for n, h, _, _ in sorted_pairs], dtype=torch.long)
        )
        assert ptr.diff().tolist()[: len(counts)] == counts.tolist()
        assert ptr[-1] == len(pairs)
