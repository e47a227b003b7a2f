"""A graph that was written in parts is the same graph."""

import numpy as np
import pytest
import torch

from gnn_depth.data import DataError, PartitionedGraph, SyntheticCitation
from gnn_depth.data.partitioned import write_partition
from gnn_depth.data.shards import contiguous, division, metis
from tests.sharded import graph_batch


@pytest.fixture(scope="module")
def source():
    return SyntheticCitation(
        num_nodes=60,
        num_edges=120,
        num_features=16,
        num_classes=3,
        num_train_per_class=5,
        num_val=10,
        num_test=10,
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_the_parts_together_are_the_graph_that_was_divided(tmp_path, source, weighted):
    batch = graph_batch(torch.float32, weighted)
    part = torch.randint(0, 3, (len(batch.x),))
    write_partition(source, batch, part, tmp_path / "parts")
    found = PartitionedGraph(str(tmp_path / "parts")).batch
    for ours, theirs in zip(found.tensors, batch.tensors, strict=True):
        assert torch.equal(ours, theirs)
    assert (found.graph.edge_weight is None) != weighted
    assert not weighted or torch.equal(found.graph.edge_weight, batch.graph.edge_weight)


def test_it_describes_itself_like_its_source(tmp_path, source):
    write_partition(source, source.batch, contiguous(60, 4), tmp_path / "parts")
    data = PartitionedGraph(str(tmp_path / "parts"))
    for name in (
        "num_features",
        "num_classes",
        "num_edge_features",
        "task",
        "class_names",
        "checksum",
    ):
        assert getattr(data, name) == getattr(source, name), name
    # Processes get whole parts where that is possible.
    assert data._bounds(2).tolist() == [0, 30, 60]
    assert data._bounds(3).tolist() == [0, 20, 40, 60]


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
