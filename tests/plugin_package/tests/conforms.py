"""The parts of this package conform, do what they say, and are compiled."""

import torch
import torch.nn.functional as F
from gnn_depth_plugin_example import BandNorm, DepthScaled, LazyGCN, Oscillator

from gnn_depth import DeepGNN, Graph
from gnn_depth.testing import check_init, check_layer, check_norm, check_skip

GRAPH = Graph(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=5)


def test_the_parts_conform():
    check_norm(BandNorm, bound=0.7)
    check_layer("lazy_gcn", laziness=0.3)
    check_skip(Oscillator, step=0.5, damping=0.2, stiffness=0.7)
    check_init(DepthScaled, power=1.0)


def test_only_long_features_are_shortened():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(
        BandNorm(2, bound=1.0)(x, GRAPH), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    )


def test_a_layer_that_keeps_all_sends_nothing():
    layer, x = LazyGCN(4, 3, laziness=1.0), torch.randn(5, 4)
    torch.testing.assert_close(layer(x, GRAPH), layer.lin(x))


def stack() -> DeepGNN:
    """A stack of this package's parts, drawn by its initialisation."""
    torch.manual_seed(0)
    made = DeepGNN(3, 2, LazyGCN, num_layers=4, hidden_channels=6, skip=Oscillator).double()
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


def test_compiled_stacks_give_equal_numbers():
    wanted, compiled = step(stack()), stack()
    compiled.compile_layers()
    for one, two in zip(step(compiled), wanted, strict=True):
        torch.testing.assert_close(one, two)
