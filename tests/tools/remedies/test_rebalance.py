"""Rebalancing leaves the network's outputs and moves every neuron towards balance."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from gnn_depth_remedies import Rebalance, rebalance
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth import DeepGNN, NodeClassifier
from gnn_depth.diagnostics.balance import imbalance, size
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import Residual
from tests.reference import drawn

STACKS = {"gat": {"layer": partial(GAT, heads=2)}, "residual gcn": {"layer": GCN, "skip": Residual}}


def stack_of(options):
    return drawn(DeepGNN(6, 3, num_layers=4, hidden_channels=5, **options))


def off_balance(stack):
    """The largest imbalance of a neuron, relative to the size of its weights."""
    return max(float((imbalance(link).abs() / size(link)).max()) for link in stack.links())


@pytest.mark.parametrize("criterion", ["norms", "gradients"])
@pytest.mark.parametrize("name", STACKS)
def test_outputs_stay_and_gradients_are_those_of_the_rescaled_weights(name, criterion, graph):
    stack, x = stack_of(STACKS[name]), torch.randn(9, 6, dtype=torch.float64)
    y = torch.arange(9) % 3
    before = stack(x, graph)
    F.cross_entropy(before, y).backward()
    old = [parameter.detach().clone() for parameter in stack.parameters()]
    rebalance(stack, criterion, sweeps=3)
    assert not all(torch.equal(a, b) for a, b in zip(old, stack.parameters(), strict=True))
    after = stack(x, graph)
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
    kept = [parameter.grad.clone() for parameter in stack.parameters()]
    stack.zero_grad()
    F.cross_entropy(after, y).backward()
    for ours, parameter in zip(kept, stack.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-8, atol=1e-9)


def test_without_skips_many_sweeps_balance_every_neuron(graph):
    stack = stack_of(STACKS["gat"])
    assert off_balance(stack) > 0.1
    rebalance(stack, sweeps=60)
    assert off_balance(stack) < 1e-6


def test_a_parameter_without_gradient_or_with_zeros_leaves_its_neuron_defined():
    stack = stack_of(STACKS["gat"])
    with torch.no_grad():
        stack.layers[0].lin.weight.zero_()
    with pytest.raises(ValueError, match=r"no parameter has a gradient: .* after a backward"):
        rebalance(stack, "gradients")
    stack.layers[1].lin.weight.grad = torch.ones_like(stack.layers[1].lin.weight)
    rebalance(stack, "gradients")
    rebalance(stack)
    assert all(parameter.isfinite().all() for parameter in stack.parameters())


@pytest.mark.parametrize("criterion", ["norms", "gradients"])
@pytest.mark.parametrize("validated_every", [1, 2])
def test_the_callback_acts_after_every_second_epoch_whether_it_is_validated_or_not(
    tiny, make_trainer, criterion, validated_every
):
    found = {}
    for epochs in (1, 2):
        for callbacks in ([], [Rebalance(criterion, every_n_epochs=2, sweeps=2)]):
            torch.manual_seed(0)
            model = NodeClassifier(4, 2, num_layers=3, hidden_channels=8)
            trainer = make_trainer(
                epochs, callbacks=callbacks, check_val_every_n_epoch=validated_every
            )
            trainer.fit(model, datamodule=tiny)
            weights = torch.nn.utils.parameters_to_vector(model.parameters())
            found[epochs, bool(callbacks)] = weights
    assert torch.equal(found[1, False], found[1, True])
    assert not torch.allclose(found[2, False], found[2, True])


def test_a_network_whose_outputs_would_change_is_refused(tiny, make_trainer):
    model = NodeClassifier(4, 2, num_layers=3, norm=[LayerNorm])
    with pytest.raises(MisconfigurationException, match="change the outputs .*LayerNorm"):
        make_trainer(1, callbacks=[Rebalance()]).fit(model, datamodule=tiny)
