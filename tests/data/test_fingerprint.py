from dataclasses import replace

import pytest
import torch

from gnn_depth.data import MissingFeatures, SyntheticCitation
from gnn_depth.data.fingerprint import fingerprint
from gnn_depth.graph import Graph


def synthetic(**options):
    return SyntheticCitation(
        num_nodes=60, num_edges=120, num_features=16, num_classes=3, num_train_per_class=5, **options
    )


@pytest.fixture
def batch():
    return synthetic(num_val=10, num_test=10).batch


def test_equal_data_has_one_fingerprint(batch):
    assert fingerprint(*batch.parts) == fingerprint(*synthetic(num_val=10, num_test=10).batch.parts)


def test_any_change_of_the_data_changes_it(batch):
    edges = batch.graph.edge_index
    changed = [
        replace(batch, x=batch.x.index_put((torch.tensor(3), torch.tensor(2)), torch.tensor(0.5))),
        replace(batch, x=batch.x.double()),
        replace(batch, y=batch.y.flip(0)),
        replace(batch, val_mask=batch.test_mask, test_mask=batch.val_mask),
        replace(batch, graph=Graph(edges[:, 1:], 60)),
        MissingFeatures(synthetic(num_val=10, num_test=10), 0.5).batch,
        MissingFeatures(synthetic(num_val=10, num_test=10), 0.5, seed=1).batch,
        synthetic(num_val=10, num_test=10, seed=1).batch,
    ]
    assert len({fingerprint(*one.parts) for one in (batch, *changed)}) == 1 + len(changed)


def test_the_order_in_which_edges_are_given_does_not_matter(batch):
    edges = batch.graph.edge_index
    shuffled = edges[:, torch.randperm(edges.shape[1])]
    assert fingerprint(*replace(batch, graph=Graph(shuffled, 60)).parts) == fingerprint(*batch.parts)
