"""The heterophilous graphs, on a tiny one and on the published ones."""

import numpy as np

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
