"""Graphs side by side, and parts with parameters that are not those they begin with."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from gnn_depth.graph import Graph


class Together(NamedTuple):
    """Two graphs as one, their nodes mixed: the whole, and each with the numbers of its nodes in
    the whole."""

    whole: Graph
    parts: list[tuple[Graph, Tensor]]


@pytest.fixture
def together(graph: Graph) -> Together:
    other = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]]), 5)
    numbers = torch.randperm(14, generator=torch.Generator().manual_seed(5))
    first, second = numbers[:9], numbers[9:]
    node_to_graph = torch.zeros(14, dtype=torch.long)
    node_to_graph[second] = 1
    assert (node_to_graph.diff() < 0).any()  # unsorted
    edges = torch.cat([first[graph.edge_index], second[other.edge_index]], 1)
    return Together(Graph(edges, 14, node_to_graph), [(graph, first), (other, second)])
