"""Transforms of PyTorch Geometric on every data set, and features made from the edges."""

import random

import numpy as np
import pytest
import torch
import torch_geometric.transforms as T
from torch_geometric.data import Data

from gnn_depth.data import GraphSource
from gnn_depth.data.checks import DataError
from tests.data.conftest import small


def ring(nodes: int, **more) -> Data:
    at = torch.arange(nodes)
    one_way = torch.stack([at, (at + 1) % nodes])
    return Data(edge_index=torch.cat([one_way, one_way.flip(0)], 1), num_nodes=nodes, **more)


def test_transforms_by_name_equal_those_of_pytorch_geometric():
    given = ["NormalizeFeatures", {"name": "AddRandomWalkPE", "walk_length": 3}]
    plain, made = small().batch, small(transforms=given).batch
    data = Data(x=plain.x, edge_index=plain.graph.edge_index)
    wanted = T.AddRandomWalkPE(3, attr_name=None)(T.NormalizeFeatures()(data)).x
    torch.testing.assert_close(made.x, wanted)
    assert torch.equal(made.y, plain.y)
    assert small(transforms=given).num_features == 19


def test_nodes_that_a_transform_drops_take_their_ids_targets_and_masks_along():
    edges = torch.tensor([[0, 1, 3, 4, 5], [1, 0, 4, 5, 3]])
    y = np.array(["a", "b", "a", "b", "a", ""], object)
    given = {"x": torch.arange(12.0).view(6, 2), "edge_index": edges, "y": y}
    given["node_ids"] = np.array(list("uvwxyz"), object)
    split = {"train": [0, 3], "val": [1, 4], "test": [2]}
    data = GraphSource(given, split=split, transforms=["LargestConnectedComponents"])
    assert data.batch.x.tolist() == [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    assert data.node_ids.tolist() == ["x", "y", "z"]
    assert data.batch.y.tolist() == [1, 0, 0]
    assert [mask.tolist() for mask in data.batch.masks] == [
        [True, False, False],
        [False, True, False],
        [False, False, False],
    ]


def test_a_split_that_a_transform_draws_is_determined_and_leaves_out_rows_without_target():
    y = torch.tensor([0, 1, -1, 0, 1, -1, 0, 1])
    transforms = [{"name": "RandomNodeSplit", "num_val": 2, "num_test": 1}]
    data = [
        GraphSource(ring(8, y=y, x=torch.rand(8, 2)), seed=3, transforms=transforms)
        for _ in range(2)
    ]
    masks = [torch.stack(one.batch.masks) for one in data]
    assert torch.equal(*masks)
    assert not masks[0][:, y < 0].any()


def test_each_of_several_graphs_is_transformed_alone():
    graphs = [ring(n, x=torch.rand(n, 2), y=torch.tensor([n % 2])) for n in (5, 4, 6, 7)]
    for graph in graphs:  # an isolated node in each
        graph.x = torch.cat([graph.x, torch.ones(1, 2)])
        graph.num_nodes += 1
    data = GraphSource(graphs, transforms=["LargestConnectedComponents"])
    assert torch.bincount(data.batch.graph.node_to_graph).tolist() == [5, 4, 6, 7]
    assert data.batch.graph.num_edges == 2 * (5 + 4 + 6 + 7)
    assert data.batch.y.tolist() == [1, 0, 0, 1]


def test_a_transform_that_fails_leaves_the_global_generators_as_they_were():
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with pytest.raises(DataError, match="Distance fails on this graph"):
        small(transforms=["Distance"]).batch  # noqa: B018  (nodes have no positions)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before[1:]
