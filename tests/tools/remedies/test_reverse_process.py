"""The reverse process: inverses and gradients against slow references, and its refusals."""

import warnings

import pytest
import torch
from gnn_depth_remedies import ReverseProcess, rebalance

import gnn_depth
from gnn_depth.nn.variants.export import export

OPTIONS = {
    "num_layers": 3,
    "hidden_channels": 6,
    "skip": "residual",
    "norm": {"name": "weight_frobenius", "bound": 0.4},
    "last_activation": True,
}


def stack_of(steps, **more):
    torch.manual_seed(0)
    stack = ReverseProcess(4, 3, inverse_steps=steps, **{**OPTIONS, **more}).double()
    return stack, torch.randn(9, 4, dtype=torch.float64)


def slow(stack, x, graph, steps):
    """The formula with loops, and as many iterations as it takes."""
    hidden = stack.encoder(x)
    layers = [block.layer for block in stack.blocks]
    forwards = backwards = hidden
    for layer in layers:
        forwards = forwards + layer(forwards, graph).relu()
    for step in range(steps):
        layer = layers[-1 - step % len(layers)]
        y = backwards
        for _ in range(50):
            backwards = y - layer(backwards, graph).relu()
    return stack.decoder(torch.cat([forwards, backwards], 1))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("steps", [1, 4])
def test_outputs_and_gradients_are_those_of_a_slow_reference(steps, shared, graph):
    stack, x = stack_of(steps, share_layers=shared)
    out = stack(x, graph)  # the norms of weights take their state here
    wanted = slow(stack, x, graph, steps)
    torch.testing.assert_close(out, wanted, atol=2e-3, rtol=0)
    parameters = list(stack.parameters())
    direction = torch.randn_like(out)
    found = torch.autograd.grad((out * direction).sum(), parameters)
    expected = torch.autograd.grad((wanted * direction).sum(), parameters)
    torch.testing.assert_close(found, expected, atol=2e-2, rtol=1e-2)


def test_one_warning_names_an_inverse_that_is_not_found(graph):
    stack, x = stack_of(2, norm=[])
    with torch.no_grad():
        for block in stack.blocks:
            block.layer.lin.weight.mul_(20)
    with pytest.warns(UserWarning, match="weight_frobenius"):
        stack(x, graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stack(x, graph)


def test_it_trains_as_the_stack_of_a_classifier_and_is_not_exported(tiny, tmp_path):
    model = gnn_depth.NodeClassifier(4, 2)
    model.stack = ReverseProcess(4, 2, inverse_steps=2, **OPTIONS)
    run = gnn_depth.fit(model, tiny, epochs=2, root=str(tmp_path), progress=False)
    assert run.result["status"] == "finished"
    with pytest.raises(ValueError, match="reverse process cannot be exported: each step"):
        export(model, 5)


@pytest.mark.parametrize(
    "options", [{"skip": "none"}, {"last_activation": False}, {"dropout": 0.5}]
)
def test_a_stack_without_an_inverse_is_refused_with_the_way_out(options):
    with pytest.raises(ValueError, match="Use encoder and decoder linear, skip residual"):
        stack_of(2, **options)


def test_its_neurons_are_not_rescaled():
    with pytest.raises(ValueError, match="whole matrices"):
        rebalance(stack_of(2)[0])
