"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
import torch

from gnn_depth.graph import Graph

# Two workers on two cores: more threads than that only wait for one another.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def graph() -> Graph:
    """Nine nodes, several of them tied in degree; node 8 is isolated, node 7 has a self-loop, one edge is repeated."""
    edges = [(0, 1), (1, 0), (1, 2), (2, 3), (3, 4), (4, 0), (0, 4), (5, 2), (6, 2), (6, 5), (7, 7), (7, 6), (5, 2)]
    return Graph(torch.tensor(edges).t(), 9)


@pytest.fixture
def real_data() -> Path:
    """The folder of real data sets that GNN_DEPTH_DATA names."""
    root = os.environ.get("GNN_DEPTH_DATA")
    if not root:
        pytest.skip("real data: set GNN_DEPTH_DATA to the folder that holds Cora/, CiteSeer/ and heterophilous/")
    return Path(root)
