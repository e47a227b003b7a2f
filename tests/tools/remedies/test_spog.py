"""SPoGInit: its objective against a slow reference; its passes run no hooks."""

import pytest
import torch
import torch.nn.functional as F
from gnn_depth_remedies import SPoG
from gnn_depth_remedies.spog import _Trial, without_hooks

from gnn_depth import DeepGNN
from gnn_depth.nn.inits import Xavier
from gnn_depth.testing import check_init
from tests.nn.inits.conftest import NODES, normed_adjacency

DEEP = {"num_layers": 6, "hidden_channels": 8, "activation": "tanh"}


def stack_of(init, seed=0, **more):
    torch.manual_seed(seed)
    return DeepGNN(9, 3, init=init, **DEEP | more)


def slow_value(stack, x, graph, labels):
    """The objective of a GCN with loops and a dense matrix, from its weights as they are."""
    normed = normed_adjacency(graph)

    def smoothness(x):
        total = 0.0
        for column in x.double().unbind(1):
            total += float(column @ (column - normed @ column)) / float(column @ column)
        return total / x.shape[1] / 2

    weights = [layer.lin.weight.detach().double().requires_grad_() for layer in stack.layers]
    hidden = F.linear(x.double(), stack.encoder.weight.double(), stack.encoder.bias.double())
    states = []
    for position, weight in enumerate(weights):
        hidden = normed @ hidden @ weight.t()
        if position < len(weights) - 1:
            hidden = hidden.tanh()
        states.append(hidden.detach())
    out = F.linear(hidden, stack.decoder.weight.double(), stack.decoder.bias.double())
    grads = torch.autograd.grad(F.cross_entropy(out, labels), weights)
    return (
        (states[0].norm() / states[-1].norm() - 1) ** 2
        + (grads[1].norm() / grads[-2].norm() - 1) ** 2
        + (smoothness(x) - smoothness(states[-1])) ** 2
    )


def test_the_objective_is_that_of_a_slow_reference(data):
    stack = stack_of("xavier")
    trial = _Trial(stack, *data)
    for scales in (torch.ones(6), torch.linspace(0.5, 2, 6)):
        found = trial.value(scales.double())
        wanted = slow_value(stack, *data, trial.labels)
        assert found == pytest.approx(float(wanted), rel=1e-3)
    assert all(parameter.grad is None for parameter in stack.parameters())


def test_it_multiplies_the_matrices_of_each_layer_and_lowers_the_objective(data):
    plain = stack_of("xavier")
    stack = stack_of(SPoG(steps=15))
    torch.manual_seed(5)
    stack(*data)
    torch.manual_seed(5)
    labels = torch.randint(3, (NODES,))
    for found, drawn in zip(stack.layers, plain.layers, strict=True):
        scale = found.lin.weight / drawn.lin.weight
        torch.testing.assert_close(scale, scale[:1, :1].expand_as(scale))
        assert torch.equal(found.bias, drawn.bias)
    before, after = (slow_value(each, *data, labels) for each in (plain, stack))
    assert after < 0.5 * before


def test_states_that_are_zero_and_layers_without_a_chain_are_refused(data):
    stack = stack_of(SPoG(base=Xavier(gain=0.0)))
    with pytest.raises(ValueError, match="another base"):
        stack(*data)
    with pytest.raises(ValueError, match="weight chain"):
        stack_of("spog", layer="unitary", activation="identity")


def test_it_conforms():
    check_init("spog", steps=2)


def test_hooks_are_away_for_a_while_and_back_afterwards():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    seen = []
    model.register_forward_hook(lambda *_: seen.append("outer"))
    model[0].register_forward_pre_hook(lambda *_: seen.append("inner"))
    model[0].register_full_backward_hook(lambda *_: seen.append("backward"))
    x = torch.randn(2, 3, requires_grad=True)
    with without_hooks(model):
        model(x).sum().backward()
        handle = model.register_forward_hook(lambda *_: seen.append("within"))
        model(x)
        handle.remove()
    assert seen == ["within"]
    model(x).sum().backward()
    assert seen == ["within", "inner", "outer", "backward"]
