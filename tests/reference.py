"""Slow, obvious forms of what the package computes fast: loops over nodes and neighbours."""

import torch
from torch import Tensor

from gnn_depth.graph import Graph


def in_edges(graph: Graph, node: int) -> list[int]:
    return [edge for edge in range(graph.num_edges) if int(graph.target[edge]) == node]


def aggregate(weights: Tensor, x: Tensor, graph: Graph) -> Tensor:
    out = []
    for node in range(graph.num_nodes):
        total = torch.zeros_like(x[0])
        for edge in in_edges(graph, node):
            total = total + weights[edge][:, None] * x[graph.source[edge]]
        out.append(total)
    return torch.stack(out)


def edge_dot(query: Tensor, key: Tensor, graph: Graph) -> Tensor:
    rows = []
    for target, source in zip(graph.target.tolist(), graph.source.tolist()):
        rows.append(torch.stack([query[target, head] @ key[source, head] for head in range(query.shape[1])]))
    return torch.stack(rows) if rows else query.new_zeros(0, query.shape[1])


def edge_additive(x_dst: Tensor, x_src: Tensor, att: Tensor, graph: Graph, slope: float) -> Tensor:
    rows = []
    for target, source in zip(graph.target.tolist(), graph.source.tolist()):
        row = []
        for head in range(att.shape[0]):
            total = att.new_zeros(())
            for dst, src, a in zip(x_dst[target, head], x_src[source, head], att[head]):
                total = total + a * (dst + src) * (1 if dst + src > 0 else slope)
            row.append(total)
        rows.append(torch.stack(row))
    return torch.stack(rows) if rows else att.new_zeros(0, len(att))


def segment_sum(values: Tensor, graph: Graph) -> Tensor:
    zero = torch.zeros_like(values[:0].sum(0))
    return torch.stack([sum((values[edge] for edge in in_edges(graph, node)), zero) for node in range(graph.num_nodes)])


def segment_max(values: Tensor, graph: Graph) -> Tensor:
    """Of the nodes with edges."""
    neighbourhoods = [in_edges(graph, node) for node in range(graph.num_nodes)]
    rows = [torch.stack([values[edge] for edge in edges]).amax(0) for edges in neighbourhoods if edges]
    return torch.stack(rows) if rows else values


def softmax(scores: Tensor, graph: Graph) -> Tensor:
    rows: list[Tensor] = [torch.zeros(0)] * graph.num_edges
    for node in range(graph.num_nodes):
        edges = in_edges(graph, node)
        for edge in edges:
            rows[edge] = scores[edge].exp() / sum(scores[other].exp() for other in edges)
    return torch.stack(rows) if rows else scores


def lipschitz(scores: Tensor, h: Tensor, att_dst: Tensor, att_src: Tensor, graph: Graph, scale: float) -> Tensor:
    """s_ij / (scale ||a|| max_k sqrt(||h_i||^2 + ||h_k||^2)), one edge and head at a time."""
    rows = []
    for edge in range(graph.num_edges):
        i = int(graph.target[edge])
        row = []
        for head in range(h.shape[1]):
            size = torch.cat([att_dst[head], att_src[head]]).norm()
            sources = [int(graph.source[k]) for k in in_edges(graph, i)]
            largest = max(torch.cat([h[i, head], h[k, head]]).norm() for k in sources)
            row.append(scores[edge, head] / (scale * size * largest))
        rows.append(torch.stack(row))
    return torch.stack(rows)
