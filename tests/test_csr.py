import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth import csr
from gnn_depth.csr import padded_rows
from gnn_depth.graph import Graph
from tests.test_graph import edge_lists


@given(edge_lists(), st.booleans())
def test_padded_rows_hold_every_edge_once_at_its_node(drawn, transposed):
    graph = Graph(*drawn)
    padded = graph.padded(transposed)
    here, there = (graph.source, graph.target) if transposed else (graph.target, graph.source)
    found = []
    for node, neighbours, edges in zip(
        padded.node.tolist(), padded.neighbour.tolist(), padded.edge.tolist()
    ):
        for neighbour, edge in zip(neighbours, edges):
            if edge == graph.num_edges:
                assert neighbour == 0
            else:
                assert (node, neighbour) == (int(here[edge]), int(there[edge]))
                found.append(edge)
    assert sorted(found) == list(range(graph.num_edges))


@given(edge_lists(), st.booleans())
def test_the_slices_of_a_node_lie_together_and_pad_only_its_last_one(drawn, transposed):
    graph = Graph(*drawn)
    padded = graph.padded(transposed)
    assert padded.index.tolist() == list(range(len(padded.node)))
    assert len(padded.ptr) == graph.num_nodes + 1
    assert padded.ptr[-1] == len(padded.node)
    real = padded.edge < graph.num_edges
    for node in range(graph.num_nodes):
        own = slice(int(padded.ptr[node]), int(padded.ptr[node + 1]))
        assert (padded.node[own] == node).all()
        lengths = real[own].sum(1).tolist()
        assert all(length == 4 for length in lengths[:-1])
        assert all(length > 0 for length in lengths)


@given(edge_lists(), st.integers(1, 5), st.integers(1, 4))
def test_parts_are_the_slices_of_all_nodes_in_a_row(drawn, most, smallest):
    graph = Graph(*drawn)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csr, "MOST_PARTS", most)
        patch.setattr(csr, "SMALLEST_PART", smallest)
        padded = padded_rows(graph.ptr, graph.source, None, 2)
    parts = padded.parts()
    assert 1 <= len(parts) <= most
    assert len(parts) == 1 or len(padded.node) >= 2 * smallest
    for name in ("node", "neighbour", "edge"):
        assert torch.equal(
            torch.cat([getattr(part, name) for part in parts]), getattr(padded, name)
        )
    assert torch.equal(torch.cat([part.ptr.diff() for part in parts]), padded.ptr.diff())
    for part in parts:
        assert part.ptr[0] == 0
        assert part.index.tolist() == list(range(int(part.ptr[-1])))


def test_parts_are_as_even_as_whole_nodes_allow(monkeypatch):
    monkeypatch.setattr(csr, "SMALLEST_PART", 1)
    lengths = torch.tensor([1, 1, 1, 20, 1, 1, 1, 1, 1, 1, 1, 2])
    ptr = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
    monkeypatch.setattr(csr, "MOST_PARTS", 4)
    parts = padded_rows(ptr, torch.zeros(32, dtype=torch.long), None, 1).parts()
    assert [len(part.node) for part in parts] == [23, 1, 8]


def tensors_of(rows):
    return {name: value for name, value in vars(rows).items() if isinstance(value, torch.Tensor)}


@pytest.mark.parametrize("heads", [1, 2])
def test_indices_are_int32_until_a_count_does_not_fit(graph, heads, monkeypatch):
    narrow, padded = graph.rows(heads), graph.padded()
    assert {
        value.dtype for value in [*tensors_of(narrow).values(), *tensors_of(padded).values()]
    } == {torch.int32}
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
            assert {
                value.dtype for value in (again.edge_ids, *tensors_of(again.padded()).values())
            } == {dtype}


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
