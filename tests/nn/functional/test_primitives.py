import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import aggregate, edge_additive, edge_dot
from tests import reference

SHAPES = pytest.mark.parametrize("heads", [1, 3])


def features(graph, heads, channels=4):
    return torch.randn(graph.num_nodes, heads, channels, dtype=torch.float64, requires_grad=True)


@SHAPES
def test_aggregate_and_its_gradients_are_those_of_a_loop_over_neighbours(graph, heads):
    x = features(graph, heads)
    weights = torch.randn(graph.num_edges, heads, dtype=torch.float64, requires_grad=True)
    out, expected = aggregate(weights, x, graph), reference.aggregate(weights, x, graph)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    direction = torch.randn_like(out)
    ours = torch.autograd.grad(out, (weights, x), direction)
    theirs = torch.autograd.grad(expected, (weights, x), direction)
    for gradient, reference_gradient in zip(ours, theirs):
        torch.testing.assert_close(gradient, reference_gradient, rtol=1e-12, atol=1e-12)


@SHAPES
def test_edge_dot_is_the_dot_product_of_each_edge(graph, heads):
    query, key = features(graph, heads), features(graph, heads)
    expected = (query[graph.target] * key[graph.source]).sum(-1)
    torch.testing.assert_close(edge_dot(query, key, graph), expected, rtol=1e-12, atol=1e-12)


@SHAPES
def test_edge_additive_is_the_small_network_of_each_edge(graph, heads):
    x_dst, x_src = features(graph, heads), features(graph, heads)
    att = torch.randn(heads, 4, dtype=torch.float64)
    pair = x_dst[graph.target] + x_src[graph.source]
    expected = (torch.where(pair > 0, pair, 0.3 * pair) * att).sum(-1)
    torch.testing.assert_close(edge_additive(x_dst, x_src, att, graph, 0.3), expected)


@SHAPES
def test_both_sparse_products_differentiate_twice(graph, heads):
    x, key = features(graph, heads, 2), features(graph, heads, 2)
    weights = torch.randn(graph.num_edges, heads, dtype=torch.float64, requires_grad=True)
    for function, inputs in ((aggregate, (weights, x)), (edge_dot, (x, key))):
        assert gradcheck(lambda *args, f=function: f(*args, graph), inputs)
        assert gradgradcheck(lambda *args, f=function: f(*args, graph), inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precisions_come_back_in_their_own_type(graph, dtype):
    x = torch.randn(graph.num_nodes, 2, 4)
    weights = torch.rand(graph.num_edges, 2)
    out = aggregate(weights.to(dtype), x.to(dtype), graph)
    assert out.dtype == dtype
    torch.testing.assert_close(out.float(), aggregate(weights, x, graph), rtol=0.05, atol=0.05)
    assert edge_dot(x.to(dtype), x.to(dtype), graph).dtype == dtype


@SHAPES
def test_a_graph_without_edges_aggregates_to_zero(heads):
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), 3)
    x = features(graph, heads)
    out = aggregate(torch.zeros(0, heads, dtype=torch.float64), x, graph)
    assert (out == 0).all()
    assert edge_dot(x, x, graph).shape == (0, heads)
    out.sum().backward()
    assert (x.grad == 0).all()


def test_a_node_without_incoming_edges_gets_zero(graph):
    out = aggregate(torch.ones(graph.num_edges, 1), torch.ones(9, 1, 2), graph)
    assert (out[8] == 0).all()
