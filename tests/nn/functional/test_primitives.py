"""What holds of the primitives beside their numbers (test_loops.py) and derivatives
(test_derivatives.py)."""

from contextlib import nullcontext

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.functional import (
    aggregate,
    edge_additive,
    edge_dot,
    group_sort,
    head_dots,
    segment_max,
    segment_softmax,
    segment_sum,
)
from gnn_depth.nn.functional.segments import NARROW
from tests.reference import agree


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precisions_come_back_in_their_own_type(graph, dtype):
    x = torch.randn(graph.num_nodes, 2, 4)
    weights, att = torch.rand(graph.num_edges, 2), torch.rand(2, 4)
    for function in (
        lambda x, weights, att: aggregate(weights, x, graph),
        lambda x, weights, att: edge_dot(x, x, graph),
        lambda x, weights, att: edge_additive(x, x, att, graph),
    ):
        narrow = x.to(dtype).requires_grad_()
        out = function(narrow, weights.to(dtype), att.to(dtype))
        assert out.dtype == torch.autograd.grad(out.sum(), narrow)[0].dtype == dtype
        torch.testing.assert_close(out.float(), function(x, weights, att), rtol=0.05, atol=0.05)


def test_softmax_sums_to_one_over_every_neighbourhood_even_at_huge_scores(graph):
    scores = torch.randn(graph.num_edges, 3) * 1e4
    total = segment_sum(segment_softmax(scores, graph), graph)
    has_edges = graph.in_degree > 0
    torch.testing.assert_close(total[has_edges], torch.ones_like(total[has_edges]))
    assert (total[~has_edges] == 0).all()


def test_tied_maxima_share_the_gradient_evenly():
    graph = Graph(torch.tensor([[0, 1, 2], [0, 0, 0]]), 3)
    values = torch.tensor([[1.0], [1.0], [0.5]], requires_grad=True)
    segment_max(values, graph)[0].sum().backward()
    assert values.grad.flatten().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("uses_kernels", [False, True])
@pytest.mark.parametrize("heads", [1, 2])
def test_more_repeated_edges_than_pairs_of_nodes_have_a_product_each(heads, uses_kernels):
    graph = Graph(torch.tensor([[0] * 9 + [1], [0] * 9 + [0]]), 2)
    query, key = torch.randn(2, 2, heads, 3)
    expected = (query[graph.target] * key[graph.source]).sum(-1)
    with nullcontext() if uses_kernels else native.without_kernels():
        torch.testing.assert_close(edge_dot(query, key, graph), expected)


@pytest.mark.parametrize("width", [1, 2, 5, 6])
def test_group_sort_permutes_each_row_and_keeps_the_norms_of_states_and_gradients(width):
    x = torch.randn(7, width, dtype=torch.float64, requires_grad=True)
    out = group_sort(x)
    for row, result in zip(x.tolist(), out.tolist(), strict=True):
        wanted = []
        for start in range(0, width, 2):
            wanted += sorted(row[start : start + 2])
        assert result == wanted
    cotangent = torch.randn_like(x)
    (gradient,) = torch.autograd.grad(out, x, cotangent)
    torch.testing.assert_close(gradient.norm(dim=1), cotangent.norm(dim=1))
    assert torch.autograd.gradcheck(group_sort, x)


@pytest.mark.parametrize("channels", [1, NARROW - 1, NARROW])
@pytest.mark.parametrize("nodes", [0, 5])
def test_dot_products_of_heads_and_their_gradients_are_those_of_einsum(nodes, channels):
    x = torch.randn(nodes, 4, channels, dtype=torch.float64, requires_grad=True)
    vectors = [torch.randn(4, channels, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ours = torch.stack(head_dots(x, *vectors))
    expected = torch.stack([torch.einsum("nhc,hc->nh", x, a) for a in vectors])
    agree(ours, expected, [x, *vectors], 1e-12, allow_unused=nodes == 0)
