"""Properties that every registered feature norm has, beside those of tests/testing/built_in.py."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import registered

NORMS = {name: cls for name, cls in registered("norm").items() if issubclass(cls, FeatureNorm)}
OVER_ALL_NODES = {"batch", "group"}  # of the step, whichever graph they belong to
NODEWISE = {"layer", "node", "none"}
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
every_norm = pytest.mark.parametrize("name", NORMS)

INPUTS = {
    "equal channels": torch.linspace(-4, 4, 9)[:, None].expand(9, 4),
    "large": 1e6 * torch.linspace(-1, 1, 36).view(9, 4),
}


@pytest.mark.parametrize("name", sorted(OVER_ALL_NODES))
def test_norms_over_all_nodes_do_not_ask_which_graph_a_node_is_of(name, together):
    norm, x = NORMS[name](4), torch.randn(14, 4)
    torch.testing.assert_close(norm(x, together.whole), norm(x, Graph(together.whole.edge_index, 14)))


@every_norm
def test_a_norm_says_it_is_nodewise_exactly_if_other_nodes_change_nothing(name, graph):
    assert NORMS[name].nodewise == (name in NODEWISE)
    norm, x = NORMS[name](4).double(), torch.randn(9, 4, dtype=torch.float64)
    changed = torch.cat([x[:3], torch.randn(6, 4, dtype=torch.float64)])
    same = torch.equal(norm(x, graph)[:3], norm(changed, graph)[:3])
    assert same == NORMS[name].nodewise


def assert_trains(norm, x, graph):
    """Outputs and gradients, also those of the parameters, are finite."""
    x = x.detach().clone().requires_grad_()
    out = norm(x, graph)
    (out * torch.randn_like(out)).sum().backward()
    assert out.isfinite().all()
    assert x.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in norm.parameters())
    return out


@pytest.mark.parametrize("kind", INPUTS)
@every_norm
def test_degenerate_features_give_finite_outputs_and_gradients(name, kind, graph):
    for where in (graph, Graph(NO_EDGES, 9)):
        for training in (True, False):
            out = assert_trains(NORMS[name](4).train(training), INPUTS[kind], where)
            assert out.shape == (9, 4)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("convert", [False, True], ids=["float32 parameters", "half parameters"])
@every_norm
def test_half_precision_comes_back_as_it_came_and_near_what_float32_gives(name, convert, half, graph):
    norm = NORMS[name](4)
    for where, nodes in ((graph, 9), (Graph(NO_EDGES, 1), 1)):
        x = torch.randn(nodes, 4).to(half)
        expected = norm.float()(x.float(), where)
        out = assert_trains(norm.to(half) if convert else norm, x, where)
        assert out.dtype == half
        torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)


OPTIONS = {
    "pair": ["scale"],
    "pair_si": ["scale"],
    "graph": ["eps"],
    "neighbor": ["eps"],
    "node": ["p", "eps"],
    "group": ["weight", "eps"],
}


def test_layer_norm_brings_each_node_and_batch_norm_each_channel_to_mean_zero_and_variance_one(graph):
    x = 3 * torch.randn(9, 4) + 2
    for name, dim in (("layer", 1), ("batch", 0)):
        out = NORMS[name](4)(x, graph)
        torch.testing.assert_close(out.mean(dim), torch.zeros(out.mean(dim).shape), atol=1e-6, rtol=0)
        torch.testing.assert_close(out.var(dim, unbiased=False), torch.ones(out.mean(dim).shape), atol=1e-3, rtol=0)


def test_no_norm_changes_nothing(graph):
    x = torch.randn(9, 4)
    assert NORMS["none"](4)(x, graph) is x
