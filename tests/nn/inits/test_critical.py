"""The critical initialisation: its condition, and that nodes stay apart where it holds."""

import math

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits.critical import _propagation, critical_variance, second_eigenvalue
from gnn_depth.nn.layers import GCN

NODES = 12


def circle(nodes=NODES, hops=(1, 2)):
    """A ring whose nodes are joined with those one and two steps away: every row sums to 1."""
    node = torch.arange(nodes)
    one_way = [torch.stack([node, (node + hop) % nodes]) for hop in hops]
    return Graph(to_undirected(torch.cat(one_way, 1), num_nodes=nodes), nodes)


def error_function(x):
    return torch.erf(math.pi**0.5 / 2 * x)


def mean_products(covariance):
    """E[phi(h) phi(h)^T] of the error function, in its closed form."""
    scaled = math.pi / 2 * covariance
    size = (1 + scaled.diagonal()).sqrt()
    return 2 / math.pi * torch.arcsin(scaled / size[:, None] / size[None, :])


def test_the_largest_eigenvalue_of_the_linearised_covariance_map_is_1():
    propagation = torch.from_numpy(_propagation(circle()).toarray())
    eigenvalue = second_eigenvalue(_propagation(circle()))
    variance = critical_variance(error_function, eigenvalue)

    def layer(covariance):
        return variance * propagation @ mean_products(covariance) @ propagation.t()

    equal = torch.ones(NODES, NODES, dtype=torch.float64)
    for _ in range(5000):
        equal = layer(equal)
    assert equal.std() < 1e-12 < equal.mean()
    jacobian = torch.autograd.functional.jacobian(layer, equal).reshape(NODES**2, NODES**2)
    # Covariances are symmetric, and so are their changes.
    transposed = torch.eye(NODES**2).double().view(NODES, NODES, -1).transpose(0, 1)
    symmetric = (torch.eye(NODES**2) + transposed.reshape(NODES**2, -1)) / 2
    eigenvalues = torch.linalg.eigvals(symmetric @ jacobian @ symmetric)
    assert eigenvalues.abs().max() == pytest.approx(1, abs=1e-6)


def test_the_second_eigenvalue_is_that_of_the_largest_component():
    large = circle(100)
    edges = torch.cat([large.edge_index, torch.tensor([[100, 101], [101, 100]])], 1)
    both = Graph(edges, 102)
    dense = np.linalg.eigvalsh(_propagation(large).toarray())
    wanted = np.sort(np.abs(dense))[-2]
    assert second_eigenvalue(_propagation(large)) == pytest.approx(wanted)
    assert second_eigenvalue(_propagation(both)) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("activation", "edges", "message"),
    [
        ("relu", circle().edge_index, "with the activation relu: use one that saturates"),
        ("tanh", torch.tensor([[0, 1, 2], [1, 2, 0]]), "needs an undirected graph"),
    ],
)
def test_what_has_no_critical_weights_is_refused(activation, edges, message):
    stack = DeepGNN(8, 3, GCN, 4, 8, activation=activation, init="critical")
    nodes = int(edges.max()) + 1
    with pytest.raises(ValueError, match=message):
        stack(torch.randn(nodes, 8), Graph(edges, nodes))
