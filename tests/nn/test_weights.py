"""Norms of weights in a stack: which matrices they act on, how these are drawn, kept and saved."""

import copy
import pickle
from functools import partial

import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import BalancedXavier, DefaultInit, Orthogonal
from gnn_depth.nn.norms import FrobeniusNorm, SpectralNorm, WeightNormalisation

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
NORMS = {
    "spectral": partial(SpectralNorm, per_depth=2.0),
    "frobenius": partial(FrobeniusNorm, bound=0.5),
    "weight": WeightNormalisation,
}
every_norm = pytest.mark.parametrize("kind", NORMS)


def make(kind="spectral", layer="gcn", num_layers=3, **options):
    norms = [NORMS[kind]] if isinstance(kind, str) else kind
    return DeepGNN(6, 3, layer, num_layers, 4, norm=norms, **options)


def train(stack, graph, steps=3, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(stack.parameters(), 0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(stack(X, graph), torch.arange(9) % 3).backward()
        optimizer.step()
    return optimizer


def sizes(stack):
    """The largest singular value of every normed matrix."""
    matrices = [linear.normed_weight.detach() for linear in normed(stack)]
    return [torch.linalg.matrix_norm(matrix, 2).item() for matrix in matrices]


def normed(stack):
    return [one for one in stack.modules() if getattr(one, "weight_norm", None) is not None]


@pytest.mark.parametrize(
    ("layer", "count"),
    [
        ("gcn", 1),
        ({"name": "gat", "heads": 3}, 1),
        ("gatv2", 2),
        ({"name": "gatv2", "share_weights": True}, 1),
        ("gin", 2),
        ("sage", 2),
        ("transformer", 4),
        ("ggnn", 1),
    ],
)
def test_every_matrix_of_a_layer_is_normed_by_itself_and_nothing_else(layer, count, graph):
    stack = make([partial(SpectralNorm, bound=0.3, mode="exact")], layer, encoder="linear")
    assert sizes(stack) == pytest.approx([0.3] * 3 * count, rel=1e-5)
    assert not normed(stack.encoder)
    assert not normed(stack.decoder)
    train(stack, graph)
    assert all(parameter.grad.isfinite().all() for parameter in stack.parameters())


@every_norm
@pytest.mark.parametrize("init", [DefaultInit(), Orthogonal(gain=3.0), BalancedXavier()])
def test_an_init_draws_the_parameters_and_the_norm_acts_on_what_was_drawn(kind, init):
    with_norm, plain = make(kind), make([])
    for stack in (with_norm, plain):
        torch.manual_seed(1)
        init(stack)
    for ours, theirs in zip(with_norm.layers, plain.layers, strict=True):
        assert torch.equal(ours.lin.weight, theirs.lin.weight)
        if kind == "weight":
            torch.testing.assert_close(ours.lin.normed_weight, theirs.lin.weight)
        else:
            bound = ours.lin.weight_norm.bound * (1 + 1e-5)
            assert torch.linalg.matrix_norm(ours.lin.normed_weight.detach(), 2) <= bound


@every_norm
def test_evaluation_follows_weights_that_have_moved_and_changes_nothing_otherwise(kind, graph):
    stack = make(kind)
    train(stack, graph)
    before = copy.deepcopy(stack.state_dict())
    stack.eval()(X, graph)
    moved = [name for name, now in stack.state_dict().items() if not torch.equal(before[name], now)]
    assert bool(moved) == (kind == "spectral")
    assert all(name.endswith((".u", ".v")) for name in moved)
    before = copy.deepcopy(stack.state_dict())
    stack(X, graph)
    stack.train()(X, graph)
    assert all(torch.equal(before[name], value) for name, value in stack.state_dict().items())


@every_norm
def test_a_resumed_training_is_the_uninterrupted_one(kind, graph):
    whole = make(kind, skip="residual")
    optimizer = train(whole, graph)
    resumed = make(kind, skip="residual")
    resumed.load_state_dict(pickle.loads(pickle.dumps(whole.state_dict())))
    second = torch.optim.Adam(resumed.parameters(), 0.05)
    second.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(whole, graph, 4, optimizer)
    train(resumed, graph, 4, second)
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value), name
