import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import add_self_loops, remove_self_loops

from gnn_depth.graph import Graph


@st.composite
def edge_lists(draw):
    num_nodes = draw(st.integers(1, 8))
    node = st.integers(0, num_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes


def as_multiset(edge_index):
    return sorted(map(tuple, edge_index.t().tolist()))


@given(edge_lists())
def test_sorting_keeps_every_edge_and_pointers_delimit_the_edges_into_each_node(drawn):
    edge_index, num_nodes = drawn
    graph = Graph(edge_index, num_nodes)
    assert as_multiset(graph.edge_index) == as_multiset(edge_index)
    for node in range(num_nodes):
        assert (graph.target[graph.ptr[node] : graph.ptr[node + 1]] == node).all()
    assert graph.ptr[-1] == graph.num_edges == edge_index.shape[1]


@given(edge_lists())
def test_self_loops_are_one_at_every_node_whatever_was_there(drawn):
    edge_index, num_nodes = drawn
    expected, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    assert as_multiset(Graph(edge_index, num_nodes).with_self_loops().edge_index) == as_multiset(expected)


@given(edge_lists())
def test_gcn_weights_agree_with_pytorch_geometric(drawn):
    graph = Graph(*drawn).with_self_loops()
    _, expected = gcn_norm(graph.edge_index, num_nodes=graph.num_nodes, add_self_loops=False, dtype=torch.float64)
    torch.testing.assert_close(graph.gcn_weights(torch.float64), expected)


@given(edge_lists(), st.integers(1, 3))
def test_rows_hold_every_edge_of_every_head_once_in_both_orders(drawn, heads):
    graph = Graph(*drawn)
    rows = graph.rows(heads)
    flat = [(int(t) * heads + h, int(s) * heads + h) for t, s in zip(graph.target, graph.source) for h in range(heads)]
    order = range(len(flat)) if rows.order is None else rows.order.tolist()
    target_of_row = torch.repeat_interleave(torch.arange(rows.shape[0]), rows.ptr.diff().long()).tolist()
    assert [flat[k] for k in order] == list(zip(target_of_row, rows.source.tolist()))
    source_of_row = torch.repeat_interleave(torch.arange(rows.shape[1]), rows.transposed_ptr.diff().long()).tolist()
    transposed = [flat[k] for k in rows.transposed_order.tolist()]
    assert transposed == list(zip(rows.transposed_target.tolist(), source_of_row))


def test_what_is_derived_is_computed_once(graph):
    assert graph.with_self_loops() is graph.with_self_loops()
    assert graph.gcn_weights(torch.float32) is graph.gcn_weights(torch.float32)
    assert graph.rows(2) is graph.rows(2)
    assert graph.to("cpu") is graph


def test_another_device_gets_its_own_derived_tensors(graph):
    graph.rows(2)
    moved = graph.to("meta")
    assert moved.source.device.type == moved.ptr.device.type == "meta"
    assert not moved._derived
    assert graph.to("meta") is moved


@pytest.mark.parametrize("bad", [[0, 3], [-1, 0]])
def test_the_first_edge_out_of_range_is_named(bad):
    with pytest.raises(ValueError, match=r"edge 1 is .* nodes run from 0 to 2"):
        Graph(torch.tensor([[0, 1], bad, [5, 5]]).t(), 3)


@pytest.mark.parametrize("graphs", [[0, 1, 0], [1, 1, 1], [0, 0]])
def test_graphs_out_of_order_or_of_another_number_are_refused(graphs):
    with pytest.raises(ValueError, match="node_to_graph must hold the graph of each of the 3 nodes"):
        Graph(torch.zeros(2, 0, dtype=torch.long), 3, torch.tensor(graphs))


def test_a_pickled_graph_leaves_behind_what_it_derived(graph):
    graph.with_self_loops().rows(8)
    again = pickle.loads(pickle.dumps(graph))
    assert not again._derived
    assert torch.equal(again.edge_index, graph.edge_index)
    assert graph._derived


def test_edges_of_another_shape_or_type_are_refused():
    with pytest.raises(ValueError, match="int64 tensor of shape"):
        Graph(torch.zeros(3, 2, dtype=torch.long), 3)
    with pytest.raises(ValueError, match="int64 tensor of shape"):
        Graph(torch.zeros(2, 3), 3)
