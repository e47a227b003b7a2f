"""What the fast functions do under compilation is what they do without it.

Compiling takes seconds where nothing is on disk yet, so one function calls several of them.
"""

from functools import partial

import pytest
import torch

from gnn_depth import csr
from gnn_depth.nn.functional import (
    aggregate,
    at_source,
    at_target,
    dropout,
    edge_additive,
    edge_dot,
    linear,
    onednn,
    segment_max,
    segment_softmax,
    segments,
)
from tests.nn.conftest import compiled_only
from tests.nn.functional.cases import distance, on_nodes, on_sources, randn
from tests.nn.functional.graphs import GRAPHS

pytestmark = pytest.mark.usefixtures("compiler")

slow = pytest.mark.slow


def compiled(function):
    return torch.compile(function, dynamic=False, fullgraph=True, options={"fallback_random": True})


def structure(kind, heads):
    """A graph that has derived what compiled code cannot."""
    graph = GRAPHS[kind]()
    graph.derive()
    graph.rows(heads)
    return graph


def passes(function, inputs):
    """Values, and gradients along fixed directions."""
    inputs = [value.detach().clone().requires_grad_() for value in inputs]
    torch.manual_seed(7)
    out = function(*inputs)
    directions = torch.Generator().manual_seed(2)
    out.backward(torch.randn(out.shape, dtype=out.dtype, generator=directions))
    return [out.detach()], [value.grad for value in inputs]


def assert_same(function, inputs):
    eager, fast = passes(function, inputs), passes(compiled(function), inputs)
    assert distance(fast[0], eager[0]) <= 1e-12
    assert distance(fast[1], eager[1]) <= 1e-12


@slow  # attention by additive scores differs in the scores alone
@pytest.mark.parametrize("kind", ["block", "repeated"])
def test_attention_by_dot_products(kind):
    graph = structure(kind, 3)

    def attend(query, key, x):
        alpha = segment_softmax(edge_dot(query, key, graph), graph)
        return aggregate(dropout(alpha, 0.3), x, graph)

    assert_same(attend, (on_nodes(graph, 3), on_sources(graph, 3), on_sources(graph, 3)))


@pytest.fixture(params=[3, pytest.param(1, marks=slow)])
def parts(request, monkeypatch):
    """How many parts the neighbour lists of a graph come in, at most."""
    monkeypatch.setattr(csr, "MOST_PARTS", request.param)
    monkeypatch.setattr(csr, "SMALLEST_PART", 1)
    return request.param


@pytest.mark.parametrize(
    "kind", ["directed", *(pytest.param(kind, marks=slow) for kind in ("block", "repeated"))]
)
def test_attention_by_additive_scores_of_two_tensors(kind, parts):
    graph = structure(kind, 3)
    assert (len(graph.padded().borders) > 2) == (parts > 1)

    def attend(x_dst, x_src, att):
        scores = edge_additive(dropout(x_dst, 0.4), x_src, att, graph)
        return aggregate(segment_softmax(scores, graph), x_src, graph)

    assert_same(attend, (on_nodes(graph, 3), on_sources(graph, 3), randn(3, 3)))


@slow  # two tensors show what one does
def test_attention_by_additive_scores_of_one_tensor_on_a_graph_that_runs_both_ways(parts):
    graph = structure("isolated_symmetric", 3)
    assert (len(graph.padded().borders) > 2) == (parts > 1)

    def attend(x, att):
        return aggregate(
            segment_softmax(edge_additive(x, x, att, graph), graph), dropout(x, 0.6), graph
        )

    assert_same(attend, (on_sources(graph, 3), randn(3, 3)))


@pytest.mark.parametrize("many", [0, pytest.param(2**15, marks=slow)])
def test_maxima_tied_ones_too(monkeypatch, many):
    """Over slices of neighbours first where there are many edges."""
    monkeypatch.setattr(segments, "MANY_EDGES", many)
    graph = structure("symmetric", 1)

    def spread(values, nodes):
        largest = segment_max(values, graph)
        return (at_target(largest, graph) - at_source(nodes, graph) - values).square()

    values = randn(graph.num_edges, 2)
    values[graph.ptr[0] : graph.ptr[1]] = 1.5
    assert_same(spread, (values, randn(graph.num_nodes, 2)))


@slow  # the maxima above are over slices too
@pytest.mark.parametrize("kind", ["block", "isolated", "repeated"])
def test_maxima_over_slices(monkeypatch, kind):
    monkeypatch.setattr(segments, "MANY_EDGES", 0)
    graph = structure(kind, 1)
    values = randn(graph.num_edges, 2) - 3  # below what padding would be if it counted
    largest = compiled(lambda values: segment_max(values, graph))(values)
    assert torch.equal(largest, segment_max(values, graph))
    assert_same(lambda values: segment_softmax(values, graph), (values,))


@compiled_only
@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
def test_linear_maps_by_onednn(monkeypatch):
    from torch._inductor.utils import run_and_get_code

    import gnn_depth.nn.variants.lowering  # noqa: F401

    monkeypatch.setattr(onednn, "FASTER", True)

    def maps(x, weight, bias, linear=linear):
        return linear(linear(x.relu(), weight, bias).tanh(), weight.t()) + x

    fast_maps = torch.compile(maps, dynamic=False, fullgraph=True, options={"cpp_wrapper": True})
    given = torch.randn(400, 96), torch.randn(192, 96), torch.randn(192)
    expected = passes(partial(maps, linear=torch.nn.functional.linear), given)
    fast, code = run_and_get_code(passes, fast_maps, given)
    # Forward, and backward for both factors of each.
    assert [text.count("aoti_torch_cpu__linear_pointwise(") for text in code] == [2, 4]
    assert distance(fast[0], expected[0]) <= 1e-6
    assert distance(fast[1], expected[1]) <= 1e-6


@slow
@compiled_only
@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
def test_onednn_gets_whole_matrices_only(monkeypatch):
    from torch._inductor.utils import fresh_cache

    import gnn_depth.nn.variants.lowering  # noqa: F401

    monkeypatch.setattr(onednn, "FASTER", True)
    calls, called = [], torch.ops.mkldnn._linear_pointwise

    def call(left, right, row, *after):
        dense = right.stride() in ((right.shape[1], 1), (1, right.shape[0]))
        calls.append(left.is_contiguous() and dense and (row is None or row.is_contiguous()))
        return original(left, right, row, *after)

    def of_parts(x, weight, bias, linear=linear):
        return linear(x[:, :64], weight[:, 16:80], bias[::2])

    fast_parts = torch.compile(of_parts, dynamic=False, fullgraph=True)
    given = torch.randn(300, 96), torch.randn(48, 96), torch.randn(96)
    expected = passes(partial(of_parts, linear=torch.nn.functional.linear), given)
    with fresh_cache():  # code that another lowering gave is not found
        passes(fast_parts, given)
    original = called.default
    monkeypatch.setattr(called, "default", call)
    fast = passes(fast_parts, given)
    assert calls == [True] * 3
    assert distance(fast[0], expected[0]) <= 1e-6
    assert distance(fast[1], expected[1]) <= 1e-6


def test_dropout_draws_the_same_masks_to_the_last_bit():
    def drop(cube, wide):
        return [dropout(x, p) for x, p in ((cube, 0.6), (wide, 0.3))]

    inputs = [torch.rand(shape) + 1 for shape in ((1, 1, 7), (2, 2**14 + 3))]
    fast = compiled(drop)
    masks = []
    for function in (drop, fast, drop, fast):
        given = [x.clone().requires_grad_() for x in inputs]
        torch.manual_seed(3)
        outs = function(*given)
        gradients = torch.autograd.grad([out.sum() for out in outs], given)
        for out, gradient in zip(outs, gradients):
            assert torch.equal(out == 0, gradient == 0)
        masks.append(torch.cat([out.flatten() == 0 for out in outs]))
        after = torch.rand(1)  # as many numbers were drawn
        masks.append(after)
    assert all(
        torch.equal(mask, other)
        for first in (0, 1)
        for mask in masks[first::2]
        for other in masks[first::2]
    )
