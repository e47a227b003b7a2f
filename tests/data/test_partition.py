"""Chunks of a graph: every node is in one, they have equal sizes, and they follow the edges."""

import pytest
import torch

from gnn_depth.data.draws import Draws
from gnn_depth.data.partition import partition
from gnn_depth.graph import Graph

NODES = 60


@pytest.mark.parametrize("count", [1, 7, 60])
def test_chunks_hold_every_node_and_none_is_larger_than_its_share(count):
    graph = Graph(torch.randint(NODES, (2, 150), generator=torch.Generator().manual_seed(0)), NODES)
    chunk = partition(graph, count, Draws(0, "chunks"))
    sizes = torch.bincount(chunk, minlength=count)
    assert chunk.min() >= 0
    assert sizes.sum() == NODES
    assert sizes.max() <= -(-NODES // count)


def test_chunks_follow_the_edges():
    node = torch.arange(400)
    cliques = torch.stack(
        [node.repeat_interleave(20), (node // 20 * 20).repeat_interleave(20) + node.repeat(20) % 20]
    )
    graph = Graph(cliques, 400)
    chunk = partition(graph, 10, Draws(0, "chunks"))
    assert (chunk[graph.source] == chunk[graph.target]).double().mean() > 0.7  # a tenth by chance


@pytest.mark.parametrize(
    "edges", [torch.empty(2, 0, dtype=torch.long), torch.arange(10).expand(2, -1)]
)
def test_nodes_without_neighbours_are_divided_too(edges):
    assert (
        torch.bincount(partition(Graph(edges, 10), 3, Draws(0, "chunks")), minlength=3).max() <= 4
    )
