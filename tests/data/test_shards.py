"""Which process gets which nodes."""

import torch

from gnn_depth.data.shards import division, metis
from tests.data.conftest import small


def test_metis_gives_chunks_of_about_equal_size_that_few_edges_leave():
    batch = small(num_nodes=400, num_edges=1200).batch
    graph = batch.graph
    sizes, cut = {}, {}
    for name in ("contiguous", "metis"):
        part = division(name, batch, 4)
        sizes[name] = torch.bincount(part)
        cut[name] = int((part[graph.source] != part[graph.target]).sum())
    assert sizes["metis"].max() <= 1.1 * 100
    assert cut["metis"] < 0.8 * cut["contiguous"]
    assert torch.equal(metis(graph, 4), metis(graph, 4))
