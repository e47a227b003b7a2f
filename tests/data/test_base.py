"""Batches, fingerprints, and the steps that several data sets share."""

from dataclasses import replace

import pytest
import torch

from gnn_depth.data import MissingFeatures
from gnn_depth.data.base import fingerprint
from gnn_depth.graph import Graph
from tests.data.conftest import small


@pytest.fixture
def batch():
    return small().batch


def test_a_batch_that_was_read_and_moved_in_inference_mode_can_be_trained_with():
    data = small()
    with torch.inference_mode():
        read = data.batch
        moved = read.to("meta")
    assert moved.x.device.type == "meta"
    for batch in (read, moved):
        assert not any(
            part.is_inference() for part in (batch.x, batch.y, batch.graph.source, *batch.masks)
        )


def test_equal_data_has_one_fingerprint_and_any_change_changes_it(batch):
    edges = batch.graph.edge_index
    shuffled = Graph(edges[:, torch.randperm(edges.shape[1])], 60)
    different = [
        batch,
        replace(batch, x=batch.x.index_put((torch.tensor(3), torch.tensor(2)), torch.tensor(0.5))),
        replace(batch, x=batch.x.double()),
        replace(batch, y=batch.y.flip(0)),
        replace(batch, val_mask=batch.test_mask, test_mask=batch.val_mask),
        replace(batch, graph=Graph(edges[:, 1:], 60)),
        MissingFeatures(small(), 0.5).batch,
        MissingFeatures(small(), 0.5, seed=1).batch,
        small(seed=1).batch,
    ]
    same = [small().batch, replace(batch, graph=shuffled)]
    found = {fingerprint(*one.tensors) for one in (*different, *same)}
    assert len(found) == len(different)
    assert {fingerprint(*one.tensors) for one in (batch, *same)} < found
