"""The heterophilous graphs, on a tiny one and on the published ones."""

import numpy as np
import torch

from gnn_depth.data import HeterophilousGraphs


def test_edges_run_in_both_directions_and_masks_are_those_of_the_split(tiny_texas):
    for split in (0, 7):
        data = HeterophilousGraphs("texas", split, str(tiny_texas))
        batch = data.batch
        assert batch.graph.num_edges == 40
        assert batch.graph.in_degree.tolist() == [2] * 20
        assert (data.num_classes, data.task) == (3, "multiclass")
        order = np.random.default_rng(split).permutation(20)
        assert batch.train_mask.tolist() == (order < 10).tolist()
        assert batch.test_mask.tolist() == (order >= 15).tolist()


def test_features_are_raw_and_edges_run_both_ways_unless_asked_otherwise(tiny_texas):
    raw = HeterophilousGraphs("texas", root=str(tiny_texas)).batch
    other = HeterophilousGraphs(
        "texas", root=str(tiny_texas), normalize_features=True, undirected=False
    ).batch
    with np.load(tiny_texas / "heterophilous" / "texas.npz") as file:
        np.testing.assert_array_equal(raw.x, file["node_features"])
        assert sorted(other.graph.edge_index.T.tolist()) == sorted(file["edges"].tolist())
    torch.testing.assert_close(other.x, raw.x / raw.x.sum(1, keepdim=True))


# Nodes, undirected edges, features and classes of each set.
