"""Properties that every registered feature norm has."""

import pytest
import torch
from torch import nn

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import registered

NORMS = {name: cls for name, cls in registered("norm").items() if issubclass(cls, FeatureNorm)}
OVER_ALL_NODES = {"batch", "group"}  # of the step, whichever graph they belong to
NODEWISE = {"layer", "node", "none"}
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
every_norm = pytest.mark.parametrize("name", NORMS)
every_precision = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])

INPUTS = {
    "zeros": torch.zeros(9, 4),
    "equal rows": torch.tensor([1.0, -2.0, 3.0, 0.1]).expand(9, 4),
    "equal channels": torch.linspace(-4, 4, 9)[:, None].expand(9, 4),
    "one row of zeros": torch.eye(9, 4),
    "too small to square": 1e-30 * torch.eye(9, 4),
    "large": 1e6 * torch.linspace(-1, 1, 36).view(9, 4),
}


@every_norm
def test_renumbering_the_nodes_renumbers_the_output(name, graph):
    norm, x = NORMS[name](4).double(), torch.randn(9, 4, dtype=torch.float64)
    order = torch.randperm(9)
    renumbered = Graph(torch.argsort(order)[graph.edge_index], 9)
    torch.testing.assert_close(norm(x[order], renumbered), norm(x, graph)[order])


@pytest.mark.parametrize("name", sorted(NORMS.keys() - OVER_ALL_NODES))
def test_graphs_side_by_side_in_any_order_are_normed_as_each_alone(name, together, at_random):
    norm, x = at_random(NORMS[name](4)), torch.randn(14, 4, dtype=torch.float64)
    out = norm(x, together.whole)
    for graph, nodes in together.parts:
        torch.testing.assert_close(out[nodes], norm(x[nodes], graph), rtol=1e-10, atol=1e-10)


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


@every_precision
@pytest.mark.parametrize("kind", INPUTS)
@every_norm
def test_degenerate_features_give_finite_outputs_and_gradients(name, kind, dtype, graph):
    x = INPUTS[kind].to(dtype)
    for where in (graph, Graph(NO_EDGES, 9)):
        for training in (True, False):
            out = assert_trains(NORMS[name](4).to(dtype).train(training), x, where)
            assert out.shape == (9, 4)


@every_precision
@every_norm
def test_a_single_node_trains_and_leaves_a_norm_that_can_be_used(name, dtype):
    norm, alone = NORMS[name](4).to(dtype), Graph(NO_EDGES, 1)
    x = torch.randn(1, 4, dtype=dtype)
    assert_trains(norm, x, alone)
    assert_trains(norm.eval(), x, alone)


@every_norm
def test_gradients_are_those_of_finite_differences(name, graph, at_random):
    norm = at_random(NORMS[name](4))
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: norm(x, graph), x)


@every_norm
def test_float32_agrees_with_float64(name, graph):
    norm, x = NORMS[name](4), torch.randn(9, 4)
    narrow = norm(x, graph)
    torch.testing.assert_close(narrow.double(), norm.double()(x.double(), graph), rtol=1e-4, atol=1e-5)


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


@every_norm
def test_a_norm_comes_back_from_its_state_running_averages_included(name, graph, at_random):
    norm, x = at_random(NORMS[name](4)), torch.randn(9, 4, dtype=torch.float64)
    norm(x, graph)
    copy = NORMS[name](4).double()
    copy.load_state_dict(norm.state_dict())
    assert torch.equal(copy.eval()(x, graph), norm.eval()(x, graph))


@every_norm
def test_a_stack_with_the_norm_trains_and_gives_every_parameter_a_gradient(name, graph):
    stack = DeepGNN(6, 3, GCN, num_layers=3, hidden_channels=4, norm=[NORMS[name]])
    nn.functional.cross_entropy(stack(torch.randn(9, 6), graph), torch.arange(9) % 3).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in stack.parameters())


OPTIONS = {
    "pair": ["scale"],
    "pair_si": ["scale"],
    "graph": ["eps"],
    "neighbor": ["eps"],
    "node": ["p", "eps"],
    "group": ["weight", "eps"],
}


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize(("name", "option"), [(name, option) for name in OPTIONS for option in OPTIONS[name]])
def test_an_option_that_is_not_positive_is_refused_with_its_value(name, option, value):
    said = f"{option} of {NORMS[name].__name__} must be positive and finite, not {value}"
    with pytest.raises(ValueError, match=said):
        NORMS[name](4, **{option: value})


def test_layer_norm_brings_each_node_and_batch_norm_each_channel_to_mean_zero_and_variance_one(graph):
    x = 3 * torch.randn(9, 4) + 2
    for name, dim in (("layer", 1), ("batch", 0)):
        out = NORMS[name](4)(x, graph)
        torch.testing.assert_close(out.mean(dim), torch.zeros(out.mean(dim).shape), atol=1e-6, rtol=0)
        torch.testing.assert_close(out.var(dim, unbiased=False), torch.ones(out.mean(dim).shape), atol=1e-3, rtol=0)


def test_no_norm_changes_nothing(graph):
    x = torch.randn(9, 4)
    assert NORMS["none"](4)(x, graph) is x
