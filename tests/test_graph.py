import pickle
import weakref

import pytest
import torch
from hypothesis import example, given
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


@given(edge_lists(), st.booleans())
def test_gcn_weights_agree_with_pytorch_geometric(drawn, with_loops):
    graph = Graph(*drawn)  # a node that only sends has degree 0 there
    if with_loops:
        graph = graph.with_self_loops()
    _, expected = gcn_norm(
        graph.edge_index, num_nodes=graph.num_nodes, add_self_loops=False, dtype=torch.float64
    )
    torch.testing.assert_close(graph.gcn_weights(torch.float64), expected)


def test_what_was_derived_in_inference_mode_can_be_trained_with(graph):
    with torch.inference_mode():
        looped = graph.with_self_loops()
        weights, moved = looped.gcn_weights(torch.float32), graph.to("meta")
    assert not any(part.is_inference() for part in (looped.source, weights, moved.source))


@pytest.mark.parametrize(
    ("edges", "options", "words"),
    [
        ([[0, 0, 5], [1, 3, 5]], {}, r"edge 1 is \(0, 3\), but nodes run from 0 to 2"),
        ([[0, -1, 5], [1, 0, 5]], {}, r"edge 1 is \(-1, 0\), but nodes run from 0 to 2"),
        ([[4, 5], [1, 0]], {"num_sources": 5}, r"edge 1 is \(5, 0\), .* sources to 4"),
        ([[0], [0]], {"num_sources": 2}, "3 targets, but num_sources is 2"),
        ([[0.0], [1.0]], {}, "int64 tensor of shape"),
        ([[0, 1], [1, 2]], {"edge_weight": torch.ones(3)}, r"\(2,\)"),
        ([[0, 1], [1, 2]], {"edge_weight": torch.tensor([1, -1.0])}, r"edge_weight\[1\] is -1"),
    ],
)
def test_edges_that_do_not_fit_are_refused_with_the_first_fault(edges, options, words):
    with pytest.raises(ValueError, match=words):
        Graph(torch.tensor(edges), 3, **options)


@pytest.mark.parametrize("graphs", [[0, 2, 0], [1, 1, 1], [0, 0], [-1, 0, 1]])
def test_numbers_of_graphs_that_do_not_fit_are_refused(graphs):
    with pytest.raises(ValueError, match="node_to_graph must hold .* each of the 3 nodes"):
        Graph(torch.tensor([[0], [0]]), 3, node_to_graph=torch.tensor(graphs))


@st.composite
def blocks(draw):
    num_nodes, others = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    edge = st.tuples(st.integers(0, num_nodes + others - 1), st.integers(0, num_nodes - 1))
    edges = draw(st.lists(edge, max_size=15))
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes, num_nodes + others


@given(st.one_of(edge_lists(), blocks()))
def test_self_loops_are_one_at_every_target_whatever_was_there(drawn):
    edge_index, num_nodes, *others = drawn
    graph = Graph(edge_index, num_nodes, num_sources=others[0] if others else None)
    looped = graph.with_self_loops()
    assert (looped.num_nodes, looped.num_sources) == (num_nodes, graph.num_sources)
    expected, _ = add_self_loops(remove_self_loops(edge_index)[0], num_nodes=num_nodes)
    assert as_multiset(looped.edge_index) == as_multiset(expected)


@given(edge_lists(), st.booleans())
@example((torch.tensor([[0, 0, 1], [1, 1, 0]]), 2), False)
@example((torch.tensor([[0, 1, 2], [1, 2, 0]]), 3), False)
@example((torch.tensor([[2, 2], [2, 2]]), 3), False)
def test_a_reverse_swaps_ends_and_exists_where_every_edge_runs_both_ways_equally_often(drawn, both):
    edge_index, num_nodes = drawn
    if both:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    graph = Graph(edge_index, num_nodes)
    reverse = graph.reverse
    symmetric = as_multiset(edge_index) == as_multiset(edge_index.flip(0))
    assert (reverse is not None) == symmetric
    if symmetric:
        assert torch.equal(graph.source[reverse], graph.target)
        assert torch.equal(graph.target[reverse], graph.source)
        assert torch.equal(reverse[reverse], graph.edge_ids)


def test_a_block_has_neither_gcn_weights_nor_reverse_edges():
    block = Graph(torch.tensor([[0, 1], [1, 0]]), 2, num_sources=3)
    assert block.reverse is None
    with pytest.raises(ValueError, match="a block does not know the degrees of its sources"):
        block.gcn_weights(torch.float32)


@pytest.fixture
def directed():
    torch.manual_seed(3)
    return Graph(torch.randint(0, 9, (2, 25)), 9, torch.tensor([0, 1, 2] * 3))


@pytest.mark.parametrize("count", [0, 1, 5, 9])
def test_a_prefix_holds_the_edges_into_the_first_nodes_and_no_source_too_many(directed, count):
    block = directed.prefix(count)
    wanted = directed.edge_index[:, directed.target < count]
    assert torch.equal(block.edge_index, wanted)
    if count < 9:
        assert block.num_sources == max([count, *(wanted[0] + 1).tolist()])
        assert torch.equal(block.in_degree, directed.in_degree[:count])
        assert torch.equal(block.node_to_graph, directed.node_to_graph[:count])
    else:
        assert block is directed


@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_prefix_derives_what_the_whole_graph_does(directed, count):
    block, whole = directed.prefix(count).with_self_loops(), directed.with_self_loops()
    assert torch.equal(block.edge_index, whole.edge_index[:, : block.num_edges])
    assert block.num_edges == int(whole.ptr[count])
    assert block.num_sources == directed.prefix(count).num_sources
    for graph in (directed.prefix(count), block):
        of_whole = whole if graph is block else directed
        wanted = of_whole.gcn_weights(torch.float64)[: graph.num_edges]
        assert torch.equal(graph.gcn_weights(torch.float64), wanted)
    inner = directed.prefix(count).prefix(count - 1)
    assert torch.equal(inner.edge_index, directed.prefix(count - 1).edge_index)
    assert torch.equal(pickle.loads(pickle.dumps(block)).edge_index, block.edge_index)


def test_the_graph_of_an_edge_index_is_made_once_and_dies_with_it(graph):
    edges = graph.edge_index.flip(1)
    known = Graph.of(edges, 9)
    assert torch.equal(known.edge_index, graph.edge_index)
    assert Graph.of(edges, 9) is known
    assert Graph.of(known, 9) is known
    assert Graph.of(edges, 10) is not known
    died = weakref.ref(Graph.of(edges, 9))
    del edges
    assert died() is None


def by_torch(edges):
    edges[0, 0] = 3


def by_numpy(edges):
    edges.numpy()[0, 0] = 3


def by_swapping_two_ends(edges):
    edges.numpy()[1, [0, 5]] = edges.numpy()[1, [5, 0]]


CHANGES = [by_torch, by_numpy, by_swapping_two_ends]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("inference", [True, False])
def test_the_graph_of_an_edge_index_is_made_anew_when_an_entry_has_changed(
    graph, change, contiguous, inference
):
    with torch.inference_mode(inference):
        edges = graph.edge_index.clone()
        if not contiguous:
            edges = edges.t().contiguous().t()
        known = Graph.of(edges, 9)
        assert Graph.of(edges, 9) is known
        change(edges)
        assert not torch.equal(Graph.of(edges, 9).edge_index, known.edge_index)
        assert torch.equal(Graph.of(edges, 9).edge_index, Graph(edges, 9).edge_index)


def test_of_several_self_loops_at_a_node_the_last_weight_stays():
    edge_index = torch.tensor([[1, 0, 1, 0, 1, 1], [1, 1, 1, 0, 0, 1]])
    weight = torch.tensor([5.0, 2.0, 6.0, 3.0, 4.0, 7.0])
    looped = Graph(edge_index, 3, edge_weight=weight).with_self_loops()
    found = torch.zeros(3, 3).index_put(tuple(looped.edge_index), looped.edge_weight)
    assert found.tolist() == [[3, 2, 0], [4, 7, 0], [0, 0, 1]]


def test_a_mean_in_float16_is_right_above_its_largest_number():
    senders = torch.arange(1, 70_001)
    star = Graph(torch.stack([senders, torch.zeros_like(senders)]), 70_001)
    weights = star.mean_weights(torch.float16)
    assert weights[0].item() == pytest.approx(1 / 70_000, rel=2e-3)
