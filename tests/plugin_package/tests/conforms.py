"""The parts of this package conform, and can do what built-in ones can: balance, compile, reverse,
save memory."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from gnn_depth_plugin_example import BandNorm, DepthScaled, LazyGCN, Oscillator, SmallStep

from gnn_depth import DeepGNN, Graph
from gnn_depth.diagnostics.balance import defect, imbalance
from gnn_depth.nn.inits import Balanced
from gnn_depth.testing import check_init, check_layer, check_norm, check_skip

GRAPH = Graph(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=5)


def test_the_parts_conform():
    check_norm(BandNorm, bound=0.7)
    check_layer("lazy_gcn", laziness=0.3)
    check_skip(Oscillator, step=0.5, damping=0.2, stiffness=0.7)
    check_skip("small_step", scale=0.3)
    check_init(DepthScaled, power=1.0)


def test_only_long_features_are_shortened():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(
        BandNorm(2, bound=1.0)(x, GRAPH), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    )


def test_a_layer_that_keeps_all_sends_nothing():
    layer, x = LazyGCN(4, 3, laziness=1.0), torch.randn(5, 4)
    torch.testing.assert_close(layer(x, GRAPH), layer.lin(x))


def stack(skip=Oscillator, **options) -> DeepGNN:
    """A stack of this package's parts, drawn by its initialisation."""
    torch.manual_seed(0)
    made = DeepGNN(
        3, 2, LazyGCN, num_layers=4, hidden_channels=6, skip=partial(skip), **options
    ).double()
    DepthScaled()(made)
    return made


def step(stack: DeepGNN) -> list[torch.Tensor]:
    """The outputs, and the gradients of a loss."""
    x = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    out = stack(x, GRAPH)
    gradients = torch.autograd.grad(
        F.cross_entropy(out, torch.tensor([0, 1, 0, 1, 1])), list(stack.parameters())
    )
    return [out.detach(), *gradients]


def test_the_oscillators_follow_their_equation_with_zero_velocity_at_first():
    made = stack()
    x = made.encoder(torch.ones(5, 3, dtype=torch.float64))
    velocity = torch.zeros_like(x)
    for position, layer in enumerate(made.layers):
        force = (
            layer(x, GRAPH) if position == 3 else layer(x, GRAPH).relu()
        )  # no activation after the last layer
        velocity = velocity + force - velocity - x
        x = x + velocity
    torch.testing.assert_close(made(torch.ones(5, 3, dtype=torch.float64), GRAPH), made.decoder(x))


@pytest.mark.parametrize("skip", [Oscillator, SmallStep])
def test_neurons_balance_and_obey_the_conservation_law(skip):
    made = stack(skip)
    for parameter, gradient in zip(made.parameters(), step(made)[1:], strict=True):
        parameter.grad = gradient
    for link in made.links():
        assert defect(link, lambda parameter: parameter.grad).abs().max() < 1e-12
    assert max(imbalance(link).abs().max() for link in made.links()) > 0.1
    Balanced(DepthScaled())(made)
    assert max(imbalance(link).abs().max() for link in made.links()) < 1e-9


@pytest.mark.parametrize("skip", [Oscillator, SmallStep])
def test_checkpointed_stacks_give_equal_numbers(skip):
    for one, two in zip(step(stack(skip, checkpoint_every=2)), step(stack(skip)), strict=True):
        torch.testing.assert_close(one, two)


def test_compiled_stacks_give_equal_numbers():
    wanted, compiled = step(stack()), stack()
    compiled.compile_layers()
    for one, two in zip(step(compiled), wanted, strict=True):
        torch.testing.assert_close(one, two)


def test_a_reversible_stack_inverts_a_skip_that_adds_and_names_it_to_one_that_does_not():
    wanted = stack(SmallStep, reversible=2)
    # Hooks see states, so these are kept.
    wanted.blocks[0].register_forward_pre_hook(lambda *_: None)
    for one, two in zip(step(stack(SmallStep, reversible=2)), step(wanted), strict=True):
        torch.testing.assert_close(one, two)
    with pytest.raises(ValueError, match="small_step"):
        stack(Oscillator, reversible=2)


def test_only_the_nodes_that_are_read_are_computed_with_a_second_state_too():
    made, x = stack().eval(), torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(made(x, GRAPH, num_outputs=2), made(x, GRAPH)[:2])
