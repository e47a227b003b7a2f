"""The graphs that parts are tried on: small, with isolated nodes, self-loops and repeated edges."""

from typing import NamedTuple

import torch
from torch import Tensor

from gnn_depth.graph import Graph


def mixed() -> Graph:
    """Nine nodes: node 8 is isolated, node 7 has a self-loop, one edge is repeated, most go one way."""
    edges = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 0), (0, 4), (5, 2), (6, 2), (6, 5), (7, 7), (7, 6), (5, 2)]
    return Graph(torch.tensor(edges).t(), 9)


def both_ways() -> Graph:
    """The same with every edge in both directions."""
    return Graph(_mirrored(mixed().edge_index), 9)


def _mirrored(edges: Tensor) -> Tensor:
    return torch.cat([edges, edges.flip(0)], 1)


def without_edges(num_nodes: int = 9) -> Graph:
    """A graph without edges."""
    return Graph(torch.zeros(2, 0, dtype=torch.long), num_nodes)


def degenerate() -> dict[str, Graph]:
    """Graphs on which a part has to stay finite, by their description in messages."""
    return {
        "a graph with an isolated node": mixed(),
        "a graph without edges": without_edges(),
        "a graph of one node": without_edges(1),
    }


class Pair(NamedTuple):
    """Two graphs as one; their nodes alternate, and those of each are in their order."""

    together: Graph
    alone: list[tuple[Graph, Tensor]]  # each graph, with the numbers of its nodes in the whole


def pair(mirrored: bool = False) -> Pair:
    """The mixed graph and a smaller one side by side; with every edge in both directions if mirrored."""
    first, second = mixed(), Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]]), 5)
    node_to_graph = torch.tensor([0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0])
    numbers = [(node_to_graph == graph).nonzero()[:, 0] for graph in (0, 1)]
    edges = torch.cat([numbers[0][first.edge_index], numbers[1][second.edge_index]], 1)
    edges = _mirrored(edges) if mirrored else edges
    return Pair(Graph(edges, 14, node_to_graph), [(first, numbers[0]), (second, numbers[1])])


def renumbered(graph: Graph, order: Tensor) -> Graph:
    """The graph whose node i is node ``order[i]`` of this one."""
    return Graph(torch.argsort(order)[graph.edge_index], graph.num_nodes)


def has_edges(graph: Graph, edges: Tensor) -> bool:
    """Whether the graph's edges are still these, as sources and targets and as its ``edge_index``."""
    return torch.equal(graph.edge_index, edges) and torch.equal(torch.stack([graph.source, graph.target]), edges)
