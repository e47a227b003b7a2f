"""Slow, obvious forms of what the package computes fast, by one operation of PyTorch for all edges or
by loops over nodes and neighbours."""

from collections.abc import Callable
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


def in_edges(graph: Graph, node: int) -> list[int]:
    return [edge for edge in range(graph.num_edges) if int(graph.target[edge]) == node]


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
    neighbourhoods = [in_edges(graph, node) for node in range(graph.num_nodes)]
    rows = [
        torch.stack([values[edge] for edge in edges]).amax(0) for edges in neighbourhoods if edges
    ]
    return torch.stack(rows) if rows else values


def softmax(scores: Tensor, graph: Graph) -> Tensor:
    return scores.exp() / segment_sum(scores.exp(), graph)[graph.target]


def with_loops(graph: Graph) -> Graph:
    """Exactly one self-loop at every node."""
    pairs = [(j, i) for j, i in zip(graph.source.tolist(), graph.target.tolist()) if i != j]
    pairs += [(i, i) for i in range(graph.num_nodes)]
    return Graph(torch.tensor(pairs).t(), graph.num_nodes)


def _of_every_edge(
    scores: Tensor, graph: Graph, divisor: Callable[[int, int, int], Tensor | float]
) -> Tensor:
    """Scores by divisor(target, source, head), one edge and head at a time."""
    rows = []
    for edge in range(graph.num_edges):
        i, j = int(graph.target[edge]), int(graph.source[edge])
        heads = range(scores.shape[1])
        rows.append(torch.stack([scores[edge, head] / divisor(i, j, head) for head in heads]))
    return torch.stack(rows)


def _sources(graph: Graph, node: int) -> list[int]:
    return [int(graph.source[edge]) for edge in in_edges(graph, node)]


def lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, per_head: bool = True
) -> Tensor:
    """s_ij / (scale ||a|| max_k sqrt(||h_i||^2 + ||h_k||^2)); parts: h of targets, h of sources,
    a_dst, a_src."""
    x_dst, x_src, att_dst, att_src = parts

    def divisor(i: int, j: int, head: int) -> Tensor:
        largest = max(
            torch.cat([x_dst[i, head], x_src[k, head]]).norm() for k in _sources(graph, i)
        )
        return scale * _length(att_dst, att_src, head if per_head else None) * largest

    return _of_every_edge(scores, graph, divisor)


def released_lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, per_head: bool = True
) -> Tensor:
    """s_ij / (scale ||a|| sqrt(M_i + ||h_j||^2)), M the list, node by node, of every head's max_k
    ||h_k||^2."""
    _, x_src, att_dst, att_src = parts
    listed = []
    for node in range(graph.num_nodes):
        for head in range(scores.shape[1]):
            squares = [x_src[k, head] @ x_src[k, head] for k in _sources(graph, node)]
            listed.append(max(squares) if squares else 0.0)

    def divisor(i: int, j: int, head: int) -> Tensor:
        square = listed[i] + x_src[j, head] @ x_src[j, head]
        return scale * _length(att_dst, att_src, head if per_head else None) * square.sqrt()

    return _of_every_edge(scores, graph, divisor)


def _length(att_dst: Tensor, att_src: Tensor, head: int | None) -> Tensor:
    pair = torch.cat([att_dst, att_src], -1)
    return pair.norm() if head is None else pair[head].norm()


def quadratic_lipschitz(
    scores: Tensor, parts: tuple[Tensor, ...], graph: Graph, scale: float, released: bool = False
) -> Tensor:
    """s_ij / (scale max(uv, uw, vw)), u = ||q_i||, v = max_k ||k_k||, w = max_k ||v_k||; parts: q,
    k, v. In the released form u is the Frobenius norm of the queries of all edges."""
    query, key, value = parts

    def divisor(i: int, j: int, head: int) -> Tensor:
        v, w = (max(part[k, head].norm() for k in _sources(graph, i)) for part in (key, value))
        u = query[graph.target if released else i, head].norm()
        return scale * max(u * v, u * w, v * w)

    return _of_every_edge(scores, graph, divisor)


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
