"""Properties that every registered feature norm has."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.base import FeatureNorm
from gnn_depth.registry import registered

NORMS = {name: cls for name, cls in registered("norm").items() if issubclass(cls, FeatureNorm)}
every_norm = pytest.mark.parametrize("name", NORMS)


@every_norm
def test_renumbering_the_nodes_renumbers_the_output(name, graph):
    norm, x = NORMS[name](4).double(), torch.randn(9, 4, dtype=torch.float64)
    order = torch.randperm(9)
    renumbered = Graph(torch.argsort(order)[graph.edge_index], 9)
    torch.testing.assert_close(norm(x[order], renumbered), norm(x, graph)[order])


@every_norm
def test_zero_rows_and_equal_rows_give_finite_outputs_and_gradients(name, graph):
    for x in (torch.zeros(9, 4), torch.ones(9, 4), torch.randn(9, 4)):
        x.requires_grad_()
        out = NORMS[name](4)(x, graph)
        (out * torch.randn(9, 4)).sum().backward()
        assert out.isfinite().all()
        assert x.grad.isfinite().all()


@every_norm
def test_the_shape_is_kept(name, graph):
    assert NORMS[name](4)(torch.randn(9, 4), graph).shape == (9, 4)


@every_norm
def test_a_single_node_trains(name):
    x = torch.randn(1, 4, requires_grad=True)
    out = NORMS[name](4)(x, Graph(torch.zeros(2, 0, dtype=torch.long), 1))
    out.sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()


def test_layer_norm_brings_each_node_and_batch_norm_each_channel_to_mean_zero_and_variance_one(graph):
    x = 3 * torch.randn(9, 4) + 2
    for name, dim in (("layer", 1), ("batch", 0)):
        out = NORMS[name](4)(x, graph)
        torch.testing.assert_close(out.mean(dim), torch.zeros(out.mean(dim).shape), atol=1e-6, rtol=0)
        torch.testing.assert_close(out.var(dim, unbiased=False), torch.ones(out.mean(dim).shape), atol=1e-3, rtol=0)


def test_no_norm_changes_nothing(graph):
    x = torch.randn(9, 4)
    assert NORMS["none"](4)(x, graph) is x
