import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.parts import FeatureNorm
from tests.nn.stacks import Oscillator

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)).double()


class Wandering(FeatureNorm):
    """Multiplies by a buffer that moves on in every pass in training."""

    def __init__(self, channels):
        super().__init__(channels)
        self.register_buffer("factor", torch.ones(()))

    def forward(self, x, graph):
        if self.training:
            self.factor.mul_(1.1)
        return x * self.factor.clone()


def two_of(checkpoint_every="sqrt", num_layers=5, **options):
    """A stack, and the same with checkpoints."""
    torch.manual_seed(1)
    options = {
        "layer": {"name": "gat", "dropout": 0.3},
        "hidden_channels": 4,
        "dropout": 0.5,
    } | options
    options["num_layers"] = num_layers
    whole = DeepGNN(6, 3, **options).double()
    again = DeepGNN(6, 3, checkpoint_every=checkpoint_every, **options).double()
    again.load_state_dict(whole.state_dict())
    return whole, again


def step(stack, graph):
    """Scores, gradients, buffers, and the random number after a step."""
    torch.manual_seed(7)
    stack.zero_grad()
    scores = stack(X, graph)
    scores.square().sum().backward()
    return [
        scores,
        *(parameter.grad for parameter in stack.parameters()),
        *stack.buffers(),
        torch.rand(1),
    ]


ASSEMBLIES = {
    "no skip": {},
    "residual": {"skip": "residual", "norm": "layer", "norm_after_skip": True},
    "first state": {"skip": "initial_residual"},
    "all states": {"skip": "dense"},
    "second state": {"skip": Oscillator},
    "all outputs": {"skip": "residual", "jump": "cat"},
    "the largest of all outputs": {"jump": "max"},
    "no encoder, no decoder": {"encoder": "none", "decoder": "none"},
    "shared layers": {"share_layers": True},
    "the first state inside layers": {"layer": "gcnii"},
    "running averages": {"norm": "batch"},
    "a buffer that output depends on": {"norm": [Wandering]},
    "normed weights": {"norm": "spectral"},
}


@pytest.mark.parametrize("assembly", ASSEMBLIES)
def test_numbers_are_to_the_last_bit_those_without_checkpoints(assembly, graph):
    whole, again = two_of(**ASSEMBLIES[assembly])
    for _ in range(2):
        for wanted, got in zip(step(whole, graph), step(again, graph), strict=True):
            assert (wanted is None and got is None) or torch.equal(wanted, got)


def test_layers_run_again_in_the_backward_pass_and_only_where_gradients_are_wanted(
    graph, monkeypatch
):
    _, stack = two_of(2, num_layers=4, layer="gcn")
    calls = []
    forward = GCN.forward
    monkeypatch.setattr(
        GCN, "forward", lambda layer, *inputs: calls.append(layer) or forward(layer, *inputs)
    )
    scores = stack(X, graph)
    assert calls == list(stack.layers)
    scores.sum().backward()
    assert calls[4:] == [stack.layers[position] for position in (2, 3, 0, 1)]
    calls.clear()
    with torch.no_grad():
        stack(X, graph)
    assert calls == list(stack.layers)
