"""A graph whose first nodes hear from few others."""

import pytest
import torch

from gnn_depth.graph import Graph


@pytest.fixture
def chain():
    """Edges from later nodes to earlier ones mostly, so that the first nodes do not hear from all
    others."""
    edges = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 3), (7, 4), (8, 5), (0, 2), (2, 2)]
    return Graph(torch.tensor(edges).t(), 9)
