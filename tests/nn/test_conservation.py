"""Rescaling a neuron changes nothing, so the weights around it obey a conservation law:
nn/neurons.py."""

import pytest
import torch
import torch.nn.functional as F

from gnn_depth.diagnostics.balance import defect, imbalance, size
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.neurons import hidden_states, links, why_no_law
from tests import reference
from tests.nn.stacks import STACKS, inputs, rescale, stack_of


def drawn(stack):
    """In double precision, with every parameter drawn, biases too."""
    with torch.no_grad():
        for parameter in reference.drawn(stack).parameters():
            parameter.mul_(parameter.shape[-1] ** -0.5)
    return stack


def backward(stack, x, graph):
    F.cross_entropy(stack(x, graph), torch.arange(len(x)) % 3).backward()


def is_conserved(stack, link):
    """Whether delta is zero to 1e-10, relative to what it is the sum of."""
    off = defect(link)
    roles = (*link.incoming, *link.attention, *link.outgoing)
    largest = max(
        (one.parameter * one.parameter.grad).abs().max()
        for one in roles
        if one.parameter.grad is not None
    )
    assert largest > 1e-7
    return bool((off.abs() <= 1e-10 * largest).all())


@pytest.mark.parametrize(("variant", "assembly"), STACKS)
def test_the_law_holds_for_every_neuron_of_a_stack_and_rescaling_them_changes_nothing(
    variant, assembly, graph
):
    stack, x = drawn(stack_of(variant, assembly)), inputs(assembly, graph.num_nodes)
    backward(stack, x, graph)
    found = links(stack)
    assert why_no_law(stack) is None
    assert {state for link in found for state in link.states} == hidden_states(stack)
    assert all(is_conserved(stack, link) for link in found)
    with torch.no_grad():
        before = stack.eval()(x, graph)
        for link in found:
            rescale(link, torch.exp(torch.randn_like(imbalance(link))))
        torch.testing.assert_close(stack(x, graph), before, rtol=1e-8, atol=1e-8)


def test_the_imbalance_is_that_of_the_paper():
    layer = {"name": "gatv2", "share_weights": True, "bias": False}
    stack = drawn(DeepGNN(5, 3, layer, 3, 6, encoder="none", decoder="none"))
    for position, link in enumerate(links(stack)):
        layer, after = stack.layers[position], stack.layers[position + 1]
        for i, got in enumerate(imbalance(link).tolist()):
            into = sum(weight**2 for weight in layer.lin_src.weight[i].tolist())
            out = sum(weight**2 for weight in after.lin_src.weight[:, i].tolist())
            attention = layer.att.flatten()[i].item() ** 2
            assert got == pytest.approx(into - attention - out, rel=1e-12)
            assert size(link)[i].item() == pytest.approx(into + attention + out, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"activation": "elu"}, "the activation elu is not positively homogeneous"),
        ({"norm": "lipschitz"}, "LipschitzNorm changes the scale"),
    ],
)
def test_where_the_law_does_not_hold_it_is_said_why(options, reason, graph):
    stack = drawn(stack_of("gat", "bare", **options))
    backward(stack, inputs("bare", 9), graph)
    assert reason in why_no_law(stack)
    assert not all(is_conserved(stack, link) for link in links(stack))


@pytest.mark.parametrize(
    ("assembly", "options", "states"),
    [
        ("bare", {}, [(1,), (2,)]),
        ("encoder_and_decoder", {}, [(0,), (1,), (2,), (3,)]),
        ("residual", {}, [(0, 1, 2, 3)]),
        ("residual_after_a_map", {}, [(1, 2)]),
        ("bare", {"skip": "residual", "hidden_channels": 5}, []),
    ],
)
def test_inputs_and_outputs_are_no_neurons(assembly, options, states):
    assert [link.states for link in links(stack_of("gcn", assembly, **options))] == states


# Layers without a chain, and Dense, are refused in inits/test_balanced.py.
def test_outputs_that_join_others_cannot_be_rescaled():
    with pytest.raises(ValueError, match=r"jump cat.*last or max"):
        links(DeepGNN(4, 2, hidden_channels=4, num_layers=3, jump="cat"))
