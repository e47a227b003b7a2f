import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth import csr
from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, segment_sum
from tests.test_graph import blocks, edge_lists


@pytest.mark.parametrize(("fewer", "dtype"), [(0, torch.int32), (1, torch.int64)])
def test_indices_are_int32_until_a_count_does_not_fit(graph, fewer, dtype, monkeypatch):
    weights, x = torch.randn(graph.num_edges, 2), torch.randn(9, 2, 3)
    expected = aggregate(weights, x, graph), segment_sum(weights, graph)
    monkeypatch.setattr(csr, "LONGEST_INT32", graph.num_edges - fewer)
    again = Graph(graph.edge_index, graph.num_nodes)
    found = {value.dtype for value in vars(again.rows).values() if isinstance(value, torch.Tensor)}
    assert found == {again.edge_ids.dtype} == {dtype}
    assert torch.equal(aggregate(weights, x, again), expected[0])
    assert torch.equal(segment_sum(weights, again), expected[1])


@given(st.one_of(edge_lists(), blocks()))
def test_rows_hold_every_edge_by_target_and_by_source(drawn):
    edge_index, num_nodes, *others = drawn
    graph = Graph(edge_index, num_nodes, num_sources=others[0] if others else None)
    rows = graph.rows
    assert rows.shape == (graph.num_nodes, graph.num_sources)
    edges = [(int(t), e, int(s)) for e, (s, t) in enumerate(graph.edge_index.T)]
    assert [source for _, _, source in sorted(edges)] == rows.source.tolist()
    by_source = sorted((source, e, target) for target, e, source in edges)
    assert [e for _, e, _ in by_source] == rows.transposed_order.tolist()
    assert [target for _, _, target in by_source] == rows.transposed_target.tolist()
    assert torch.equal(rows.ptr.diff().long(), graph.target.bincount(minlength=graph.num_nodes))
    out_degree = graph.source.bincount(minlength=graph.num_sources)
    assert torch.equal(rows.transposed_ptr.diff().long(), out_degree)
