"""A graph for the initialisations that read one, and its propagation as a matrix."""

import pytest
import torch

from gnn_depth.graph import Graph

NODES = 40


@pytest.fixture
def data():
    """Features and an undirected graph."""
    draws = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES, (2, 100), generator=draws)
    edges = torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1)
    return torch.rand(NODES, 9, generator=draws), Graph(edges, NODES)


def normed_adjacency(graph):
    adjacency = torch.eye(graph.num_nodes, dtype=torch.float64)
    adjacency[graph.target, graph.source] = 1
    scale = adjacency.sum(1) ** -0.5
    return scale[:, None] * adjacency * scale
