"""Every differentiable function of tensors and a graph: how to call it, its loop, what it takes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gnn_depth.nn.functional import (
    aggregate,
    at_source,
    at_target,
    attend,
    attend_additive,
    attend_linear,
    dropout,
    edge_additive,
    edge_dot,
    neighbourhood_size,
    segment_max,
    segment_softmax,
    segment_sum,
)
from gnn_depth.nn.functional.sparse_features import sparse_form
from tests import reference

SLOPE = 0.3


@dataclass(frozen=True)
class Case:
    """Inputs are drawn for (graph, heads, channels); ours and the loop take them and the graph."""

    ours: Callable
    loop: Callable
    draw: Callable

    def inputs(self, graph, heads, dtype=torch.float64, channels=3):
        drawn = self.draw(graph, heads, channels)
        return tuple(value.to(dtype).requires_grad_() for value in drawn)


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def on_edges(graph, heads, channels):
    return (randn(graph.num_edges, heads),)


def on_sources(graph, heads, channels):
    return (randn(graph.num_sources, heads, channels),)


def edges_and_sources(graph, heads, channels):
    return *on_edges(graph, heads, channels), *on_sources(graph, heads, channels)


def nodes_and_sources(graph, heads, channels):
    return randn(graph.num_nodes, heads, channels), *on_sources(graph, heads, channels)


def seeded(function, *args):
    torch.manual_seed(5)
    return function(*args)


def mask_of(scores):
    """The factors of dropout that ``seeded`` draws for weights of this shape."""
    return seeded(dropout, torch.ones_like(scores.detach()), 0.4)


def targets(x, graph):
    """The rows of the targets, which are the first sources of a block."""
    return x if len(x) == graph.num_nodes else x[: graph.num_nodes]


def attended(scores, x, graph, mask=torch.ones_like):
    return reference.aggregate(reference.softmax(scores, graph) * mask(scores), x, graph)


def linear_attention(x, dst, src, graph, factor=None, mask=torch.ones_like):
    of_target, of_source = (x * dst).sum(-1), (x * src).sum(-1)
    scores = of_target[graph.target] + of_source[graph.source]
    if factor is not None:
        scores = scores * factor[graph.target]
    return attended(torch.where(scores > 0, scores, SLOPE * scores), x, graph, mask)


def additive_attention(dst, src, att, graph, factor=None, mask=torch.ones_like):
    scores = reference.edge_additive(dst, src, att, graph, SLOPE)
    if factor is not None:
        scores = scores * factor[graph.target]
    return attended(scores, src, graph, mask)


def largest_pair(dst, src, graph):
    most = reference.largest_source(reference.square(src), graph)
    return (reference.square(dst)[: graph.num_nodes] + most).sqrt()


def fixed_weights(x, graph):
    draws = torch.Generator().manual_seed(3)
    return torch.rand(graph.num_edges, x.shape[1], generator=draws, dtype=torch.float64).to(x)


def bag_of_words(dtype):
    words = torch.rand(7, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    words = words * (words < 0.2)
    words[3], words[:, 2] = 0, 0
    return words.to(dtype)


CASES = {
    "aggregate": Case(aggregate, reference.aggregate, edges_and_sources),
    "aggregate_with_fixed_weights": Case(
        lambda x, g: aggregate(fixed_weights(x, g), x, g),
        lambda x, g: reference.aggregate(fixed_weights(x, g), x, g),
        on_sources,
    ),
    "aggregate_without_heads": Case(
        lambda weights, x, g: aggregate(weights[:, 0], x[:, 0], g),
        lambda weights, x, g: reference.aggregate(weights[:, :1], x[:, :1], g)[:, 0],
        edges_and_sources,
    ),
    "edge_dot": Case(edge_dot, reference.edge_dot, nodes_and_sources),
    "edge_additive": Case(
        lambda dst, src, att, g: edge_additive(dst, src, att, g, SLOPE),
        lambda dst, src, att, g: reference.edge_additive(dst, src, att, g, SLOPE),
        lambda g, h, c: (*nodes_and_sources(g, h, c), randn(h, c)),
    ),
    "segment_sum": Case(segment_sum, reference.segment_sum, on_edges),
    "segment_max": Case(
        lambda v, g: segment_max(v, g)[g.in_degree > 0], reference.segment_max, on_edges
    ),
    "segment_softmax": Case(segment_softmax, reference.softmax, on_edges),
    # Without edges these are zero.
    "attend": Case(attend, attended, edges_and_sources),
    "attend_with_dropout": Case(
        lambda s, x, g: seeded(attend, s, x, g, 0.4, True),
        lambda s, x, g: attended(s, x, g, mask_of),
        edges_and_sources,
    ),
    "attend_linear": Case(
        lambda x, dst, src, g: attend_linear(x, dst, src, g, SLOPE),
        linear_attention,
        lambda g, h, c: (*on_sources(g, h, c), randn(h, c), randn(h, c)),
    ),
    "attend_linear_with_factor": Case(
        lambda x, dst, src, f, g: seeded(attend_linear, x, dst, src, g, SLOPE, 0.4, True, f),
        lambda x, dst, src, f, g: linear_attention(x, dst, src, g, f, mask_of),
        lambda g, h, c: (*on_sources(g, h, c), randn(h, c), randn(h, c), randn(g.num_nodes, h)),
    ),
    "attend_additive": Case(
        lambda dst, src, att, f, g: seeded(attend_additive, dst, src, att, g, SLOPE, 0.4, True, f),
        lambda dst, src, att, f, g: additive_attention(dst, src, att, g, f, mask_of),
        lambda g, h, c: (*nodes_and_sources(g, h, c), randn(h, c), randn(g.num_nodes, h)),
    ),
    "attend_additive_shared": Case(
        lambda x, att, g: attend_additive(targets(x, g), x, att, g, SLOPE),
        lambda x, att, g: additive_attention(x, x, att, g),
        lambda g, h, c: (*on_sources(g, h, c), randn(h, c)),
    ),
    "neighbourhood_size": Case(neighbourhood_size, largest_pair, nodes_and_sources),
    "neighbourhood_size_shared": Case(
        lambda x, g: neighbourhood_size(targets(x, g), x, g),
        lambda x, g: largest_pair(x, x, g),
        on_sources,
    ),
    "at_target": Case(
        at_target, lambda v, g: v[g.target], lambda g, h, c: (randn(g.num_nodes, h),)
    ),
    "at_source": Case(
        at_source, lambda v, g: v[g.source], lambda g, h, c: (randn(g.num_sources, h),)
    ),
    "dropout": Case(lambda x, g: seeded(dropout, x, 0.4), lambda x, g: x * mask_of(x), on_edges),
    "sparse_linear": Case(
        lambda w, b, g: sparse_form(bag_of_words(w.dtype)).linear(w, b),
        lambda w, b, g: bag_of_words(w.dtype) @ w.t() + b,
        lambda g, h, c: (randn(h, 11), randn(h)),
    ),
}
#: The others do not look at the graph.
OF_GRAPHS = [name for name in CASES if name != "sparse_linear"]


def distance(got, wanted):
    """Norm of the difference of two tuples of tensors over the norm of the second; zero where both
    are."""
    got, wanted = (
        torch.cat([part.detach().double().flatten() for part in parts]) for parts in (got, wanted)
    )
    assert got.shape == wanted.shape
    difference, size = (got - wanted).norm().item(), wanted.norm().item()
    return difference / size if size else difference
