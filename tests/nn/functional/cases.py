"""Every differentiable function of tensors and a graph: how to call it, its loop, what it takes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gnn_depth.nn.functional import (
    aggregate,
    at_source,
    at_target,
    dropout,
    edge_additive,
    edge_dot,
    segment_max,
    segment_softmax,
    segment_sum,
)
from gnn_depth.nn.functional.sparse_features import sparse_form
from tests import reference

SLOPE = 0.3


@dataclass(frozen=True)
class Case:
    """Inputs are drawn for (graph, heads); ours and the loop take them and the graph."""

    ours: Callable
    loop: Callable
    draw: Callable

    def inputs(self, graph, heads, dtype=torch.float64):
        return tuple(value.to(dtype).requires_grad_() for value in self.draw(graph, heads))


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def on_nodes(graph, heads):
    return randn(graph.num_nodes, heads, 3)


def on_sources(graph, heads):
    return randn(graph.num_sources, heads, 3)


def on_edges(graph, heads):
    return (randn(graph.num_edges, heads),)


def seeded_dropout(x, graph):
    torch.manual_seed(5)
    return dropout(x, 0.4)


def dropout_of_ones(x, graph):
    return x * seeded_dropout(torch.ones_like(x.detach()), graph)


def fixed_weights(x, graph):
    draws = torch.Generator().manual_seed(3)
    return torch.rand(graph.num_edges, x.shape[1], generator=draws, dtype=torch.float64).to(x.dtype)


def bag_of_words(dtype):
    words = torch.rand(7, 11, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    words = words * (words < 0.2)
    words[3], words[:, 2] = 0, 0
    return words.to(dtype)


CASES = {
    "aggregate": Case(
        aggregate, reference.aggregate, lambda g, h: (*on_edges(g, h), on_sources(g, h))
    ),
    "aggregate_with_fixed_weights": Case(
        lambda x, g: aggregate(fixed_weights(x, g), x, g),
        lambda x, g: reference.aggregate(fixed_weights(x, g), x, g),
        lambda g, h: (on_sources(g, h),),
    ),
    "aggregate_without_heads": Case(
        lambda weights, x, g: aggregate(weights[:, 0], x[:, 0], g),
        lambda weights, x, g: reference.aggregate(weights[:, :1], x[:, :1], g)[:, 0],
        lambda g, h: (*on_edges(g, h), on_sources(g, h)),
    ),
    "edge_dot": Case(edge_dot, reference.edge_dot, lambda g, h: (on_nodes(g, h), on_sources(g, h))),
    "edge_additive": Case(
        lambda dst, src, att, g: edge_additive(dst, src, att, g, SLOPE),
        lambda dst, src, att, g: reference.edge_additive(dst, src, att, g, SLOPE),
        lambda g, h: (on_nodes(g, h), on_sources(g, h), randn(h, 3)),
    ),
    # A block's targets are its first sources.
    "edge_additive_shared": Case(
        lambda x, att, g: edge_additive(
            x if len(x) == g.num_nodes else x[: g.num_nodes], x, att, g, SLOPE
        ),
        lambda x, att, g: reference.edge_additive(x, x, att, g, SLOPE),
        lambda g, h: (on_sources(g, h), randn(h, 3)),
    ),
    "segment_sum": Case(segment_sum, reference.segment_sum, on_edges),
    "segment_max": Case(
        lambda v, g: segment_max(v, g)[g.in_degree > 0], reference.segment_max, on_edges
    ),
    "segment_softmax": Case(segment_softmax, reference.softmax, on_edges),
    "at_target": Case(at_target, lambda v, g: v[g.target], lambda g, h: (randn(g.num_nodes, h),)),
    "at_source": Case(at_source, lambda v, g: v[g.source], lambda g, h: (randn(g.num_sources, h),)),
    "dropout": Case(seeded_dropout, dropout_of_ones, on_edges),
    "sparse_linear": Case(
        lambda w, b, g: sparse_form(bag_of_words(w.dtype)).linear(w, b),
        lambda w, b, g: bag_of_words(w.dtype) @ w.t() + b,
        lambda g, h: (randn(h, 11), randn(h)),
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
