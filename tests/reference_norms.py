"""The feature norms as loops over nodes and channels, with the training step's statistics where
there are any."""

from collections.abc import Callable

import torch
from torch import Tensor

from gnn_depth.graph import Graph
from tests import reference


def members(node: int, graph: Graph) -> list[int]:
    """The nodes of a node's graph."""
    if graph.node_to_graph is None:
        return list(range(graph.num_nodes))
    return [
        other
        for other in range(graph.num_nodes)
        if graph.node_to_graph[other] == graph.node_to_graph[node]
    ]


def neighbourhood(node: int, graph: Graph) -> list[int]:
    """Sources of the edges into a node, other than itself, and the node."""
    sources = [int(graph.source[edge]) for edge in reference.in_edges(graph, node)]
    return [node, *(source for source in sources if source != node)]


def mean_of(rows: list[Tensor]) -> Tensor:
    return sum(rows[1:], rows[0]) / len(rows)


def every_node(row: Callable[[int], Tensor], graph: Graph) -> Tensor:
    return torch.stack([row(node) for node in range(graph.num_nodes)])


def mean(x: Tensor, graph: Graph) -> Tensor:
    return every_node(lambda i: x[i] - mean_of([x[j] for j in members(i, graph)]), graph)


def pair(x: Tensor, graph: Graph, scale: float) -> Tensor:
    centred = mean(x, graph)

    def row(i: int) -> Tensor:
        squares = [sum(value**2 for value in centred[j]) for j in members(i, graph)]
        return scale * centred[i] / (mean_of(squares) + 1e-5).sqrt()

    return every_node(row, graph)


def pair_si(x: Tensor, graph: Graph, scale: float) -> Tensor:
    centred = mean(x, graph)
    return every_node(
        lambda i: scale * centred[i] / (sum(v**2 for v in centred[i]) + 1e-5).sqrt(), graph
    )


def graph_norm(x: Tensor, graph: Graph, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    def row(i: int) -> Tensor:
        centre = alpha * mean_of([x[j] for j in members(i, graph)])
        size = mean_of([(x[j] - centre) ** 2 for j in members(i, graph)])
        return gamma * (x[i] - centre) / (size + 1e-5).sqrt() + beta

    return every_node(row, graph)


def neighbor(x: Tensor, graph: Graph, gamma: Tensor, beta: Tensor, per_channel: bool) -> Tensor:
    def value(i: int, channel: int) -> Tensor:
        channels = [channel] if per_channel else range(x.shape[1])
        values = [x[j, c] for j in neighbourhood(i, graph) for c in channels]
        centre = mean_of(values)
        variance = mean_of([(v - centre) ** 2 for v in values])
        return gamma[channel] * (x[i, channel] - centre) / (variance + 1e-5).sqrt() + beta[channel]

    return every_node(
        lambda i: torch.stack([value(i, channel) for channel in range(x.shape[1])]), graph
    )


def node(x: Tensor, graph: Graph, p: float) -> Tensor:
    def row(i: int) -> Tensor:
        centre = mean_of(list(x[i]))
        deviation = (mean_of([(value - centre) ** 2 for value in x[i]]) + 1e-5).sqrt()
        return x[i] / deviation ** (1 / p)

    return every_node(row, graph)
