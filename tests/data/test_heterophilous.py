"""The heterophilous graphs, on a tiny one and on the published ones."""

import numpy as np
import pytest
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
SIZES = {
    "actor": (7600, 26659, 932, 5),
    "chameleon": (2277, 31371, 2325, 5),
    "squirrel": (5201, 198353, 2089, 5),
    "cornell": (183, 277, 1703, 5),
    "texas": (183, 279, 1703, 5),
    "wisconsin": (251, 450, 1703, 5),
    "chameleon_filtered": (890, 8854, 2325, 5),
    "squirrel_filtered": (2223, 46998, 2089, 5),
    "roman_empire": (22662, 32927, 300, 18),
    "amazon_ratings": (24492, 93050, 300, 5),
    "minesweeper": (10000, 39402, 7, 2),
    "tolokers": (11758, 519000, 10, 2),
    "questions": (48921, 153540, 301, 2),
}


@pytest.mark.parametrize("name", HeterophilousGraphs.names)
def test_the_published_sizes(real_data, name):
    data = HeterophilousGraphs(name, root=str(real_data))
    if not data.path.is_file():
        pytest.skip(f"{name} is not among the real data")
    nodes, edges, features, classes = SIZES[name]
    batch = data.batch
    assert (*batch.x.shape, batch.graph.num_edges) == (nodes, features, 2 * edges)
    assert int(batch.y.max()) + 1 == data.num_classes == classes
    assert data.task == ("binary" if classes == 2 else "multiclass")
    assert int(sum(mask.sum() for mask in batch.masks)) == nodes
