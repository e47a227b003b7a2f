"""Which process gets which nodes."""

import numpy as np
import pytest
import torch

from gnn_depth.data import DataError, SyntheticCitation
from gnn_depth.data.shards import division, metis
from tests.sharded import graph_batch


def test_metis_gives_chunks_of_about_equal_size_that_few_edges_leave():
    batch = SyntheticCitation(
        num_nodes=400, num_edges=1200, num_train_per_class=5, num_val=10, num_test=10
    ).batch
    graph = batch.graph
    sizes, cut = {}, {}
    for name in ("contiguous", "metis"):
        part = division(name, batch, 4)
        sizes[name] = torch.bincount(part)
        cut[name] = int((part[graph.source] != part[graph.target]).sum())
    assert sizes["metis"].max() <= 1.1 * 100
    assert cut["metis"] < 0.8 * cut["contiguous"]
    assert torch.equal(metis(graph, 4), metis(graph, 4))


def test_a_file_divides_the_nodes_and_every_process_needs_one(tmp_path):
    batch, file = graph_batch(), str(tmp_path / "nodes.npy")
    part = np.arange(batch.graph.num_nodes) % 3
    np.save(file, part)
    assert division(file, batch, 3).tolist() == part.tolist()
    for wrong, processes in ((part, 4), (part, 2), (part[1:], 3), (part - 1, 3), (part[None], 3)):
        np.save(file, wrong)
        with pytest.raises(DataError, match=f"0 to {processes - 1}"):
            division(file, batch, processes)
    with pytest.raises(DataError, match="metiss"):
        division("metiss", batch, 3)
