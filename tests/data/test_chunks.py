"""Chunks of a graph: everybody is in one, they are of one size, and they follow the edges."""

import pytest
import torch

from gnn_depth.data.chunks import chunks
from gnn_depth.data.draws import Draws
from gnn_depth.graph import Graph

NODES = 60


def random_graph():
    return Graph(torch.randint(NODES, (2, 150), generator=torch.Generator().manual_seed(0)), NODES)


@pytest.mark.parametrize("count", [1, 7, 60])
def test_chunks_hold_every_node_and_none_is_larger_than_its_share(count):
    label = chunks(random_graph(), count, Draws(0, "chunks"))
    sizes = torch.bincount(label, minlength=count)
    assert label.min() >= 0
    assert sizes.sum() == NODES
    assert sizes.max() <= -(-NODES // count)


def test_chunks_follow_the_edges():
    node = torch.arange(400)
    cliques = Graph(
        torch.stack([node.repeat_interleave(20), (node // 20 * 20).repeat_interleave(20) + node.repeat(20) % 20]), 400
    )
    label = chunks(cliques, 10, Draws(0, "chunks"))
    kept = (label[cliques.source] == label[cliques.target]).double().mean()
    assert kept > 0.7  # a tenth by chance


@pytest.mark.parametrize("edges", [torch.empty(2, 0, dtype=torch.long), torch.arange(10).expand(2, -1)])
def test_nodes_without_neighbours_are_shared_out_too(edges):
    assert torch.bincount(chunks(Graph(edges, 10), 3, Draws(0, "chunks")), minlength=3).max() <= 4
