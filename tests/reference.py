"""Slow, obvious forms of what the package computes fast, by one operation of PyTorch for all edges or
by loops over nodes and neighbours."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import Module

from gnn_depth.graph import Graph


def drawn(module: Module) -> Module:
    """The module in float64 with every parameter drawn, so that ones and zeros hide nothing."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module.double()


def segment_sum(values: Tensor, graph: Graph) -> Tensor:
    zeros = values.new_zeros(graph.num_nodes, *values.shape[1:])
    return zeros.index_add(0, graph.target, values)


def aggregate(weights: Tensor, x: Tensor, graph: Graph) -> Tensor:
    return segment_sum(weights[..., None] * x[graph.source], graph)


def edge_dot(query: Tensor, key: Tensor, graph: Graph) -> Tensor:
    return (query[graph.target] * key[graph.source]).sum(-1)


def edge_additive(x_dst: Tensor, x_src: Tensor, att: Tensor, graph: Graph, slope: float) -> Tensor:
    total = x_dst[graph.target] + x_src[graph.source]
    return (att * torch.where(total > 0, total, slope * total)).sum(-1)


def segment_max(values: Tensor, graph: Graph) -> Tensor:
    """Of the nodes with edges."""
    rows = [values[graph.target == node].amax(0) for node in graph.target.unique()]
    return torch.stack(rows) if rows else values


def largest_source(values: Tensor, graph: Graph) -> Tensor:
    """The maximum over the sources of the edges into each node; zero without edges."""
    rows = []
    for node in range(graph.num_nodes):
        sources = graph.source[graph.target == node]
        rows.append(values[sources].amax(0) if len(sources) else torch.zeros_like(values[0]))
    return torch.stack(rows)


def square(x: Tensor) -> Tensor:
    return x.square().sum(-1)


def softmax(scores: Tensor, graph: Graph) -> Tensor:
    return scores.exp() / segment_sum(scores.exp(), graph)[graph.target]


def with_loops(graph: Graph) -> Graph:
    """Exactly one self-loop at every node."""
    pairs = [(j, i) for j, i in zip(graph.source.tolist(), graph.target.tolist()) if i != j]
    pairs += [(i, i) for i in range(graph.num_nodes)]
    return Graph(torch.tensor(pairs).t(), graph.num_nodes)


def lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, per_head: bool = True
) -> Tensor:
    """s_ij / (scale ||a|| max_k sqrt(||h_i||^2 + ||h_k||^2)); parts: h of targets, h of sources,
    a_dst, a_src."""
    x_dst, x_src, *att = parts
    size = (square(x_dst) + largest_source(square(x_src), graph)).sqrt()
    return scores / (scale * _length(att, per_head) * size)[graph.target]


def released_lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, per_head: bool = True
) -> Tensor:
    """s_ij / (scale ||a|| sqrt(M_i + ||h_j||^2)), M the list, node by node, of every head's max_k
    ||h_k||^2."""
    _, x_src, *att = parts
    listed = largest_source(square(x_src), graph).flatten()
    size = (listed[graph.target, None] + square(x_src)[graph.source]).sqrt()
    return scores / (scale * _length(att, per_head) * size)


def _length(att: list[Tensor], per_head: bool) -> Tensor:
    pair = torch.cat(att, -1)
    return square(pair if per_head else pair.flatten()).sqrt()


def quadratic_lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, released: bool = False
) -> Tensor:
    """s_ij / (scale max(uv, uw, vw)), u = ||q_i||, v = max_k ||k_k||, w = max_k ||v_k||; parts: q,
    k, v. In the released form u is the Frobenius norm of the queries of all edges."""
    u, *sizes = (square(part).sqrt() for part in parts)
    if released:
        u = square(parts[0][graph.target]).sum(0).sqrt()
    v, w = (largest_source(size, graph) for size in sizes)
    size = torch.stack(torch.broadcast_tensors(u * v, u * w, v * w)).amax(0)
    return scores / (scale * size)[graph.target]


released_quadratic_lipschitz = partial(quadratic_lipschitz, released=True)


def agree(
    ours: Tensor,
    wanted: Tensor,
    into: list[Tensor],
    tolerance: float = 1e-10,
    allow_unused: bool = False,
) -> None:
    """Values agree, and their gradients along a random direction; an unused input has zeros."""
    torch.testing.assert_close(ours, wanted, rtol=tolerance, atol=tolerance)
    options = {"allow_unused": allow_unused, "materialize_grads": allow_unused}
    direction = torch.randn_like(wanted)
    got = torch.autograd.grad(ours, into, direction, retain_graph=True, **options)
    theirs = torch.autograd.grad(wanted, into, direction, **options)
    assert allow_unused or all(gradient.any() for gradient in theirs)
    torch.testing.assert_close(got, theirs, rtol=tolerance, atol=tolerance)
