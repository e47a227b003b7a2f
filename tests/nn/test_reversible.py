import copy
import logging

import pytest
import torch

from gnn_depth.nn import DeepGNN
from tests.nn.stacks import Oscillator

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0)).double()


def stack_of(reversible=2, num_layers=7, dtype=torch.float64, **options):
    torch.manual_seed(1)
    options = {"layer": "gat", "skip": "residual", "hidden_channels": 8} | options
    return DeepGNN(6, 3, num_layers=num_layers, reversible=reversible, **options).to(dtype)


def by_loop(stack, x, graph):
    """The formula, without dropout: groups of channels as a list, each round replacing one of
    them."""
    groups = list(stack.encoder(x).tensor_split(stack.reversible, 1))
    for position, layer in enumerate(stack.layers):
        turn = position % len(groups)
        z = sum(groups[1:]) if turn == 0 else groups[turn - 1]
        update = stack.norms[position](layer(z, graph), graph)
        update = torch.relu(update) if position < len(stack.layers) - 1 else update
        groups[turn] = stack.skips[position](update, [groups[turn]], graph)
    return stack.decoder(torch.cat(groups, 1))


def results(stack, graph, forward=DeepGNN.__call__):
    """Scores and gradients, those of the features too."""
    torch.manual_seed(7)
    stack.zero_grad()
    x = X.clone().requires_grad_()
    scores = forward(stack, x, graph)
    scores.square().sum().backward()
    return [scores.detach(), x.grad, *(parameter.grad for parameter in stack.parameters())]


def distance(found, wanted):
    """The largest difference, over the largest number."""
    off = max(float((one - other).abs().max()) for one, other in zip(found, wanted, strict=True))
    return off / max(float(other.abs().max()) for other in wanted)


def watched(stack, x, graph):
    """A pass that shows its states, and therefore keeps them."""
    handle = stack.blocks[0].register_forward_pre_hook(lambda *_: None)
    scores = stack(x, graph)
    handle.remove()
    return scores


ASSEMBLIES = {
    "groups of 2": {},
    "groups of 4": {"reversible": 4, "layer": "gcn"},
    "fewer layers than groups": {"reversible": 4, "num_layers": 3},
    "several heads": {"layer": {"name": "gat", "heads": 2, "split_heads": True}},
    "norm": {"norm": "layer", "skip": "layer_scale"},
    "shared layers": {"share_layers": True, "skip": {"name": "rezero", "initial": 0.3}},
    "normed weights": {"norm": "spectral", "layer": "gcn"},
}


@pytest.mark.parametrize("assembly", ASSEMBLIES)
def test_scores_and_gradients_are_those_of_the_formula(assembly, graph):
    stack = stack_of(**ASSEMBLIES[assembly])
    assert distance(results(stack, graph), results(stack, graph, forward=by_loop)) < 1e-10
    with torch.no_grad():
        torch.testing.assert_close(stack.eval()(X, graph), by_loop(stack, X, graph))


def test_random_numbers_and_running_averages_are_those_of_a_pass_that_keeps_its_states(graph):
    stack = stack_of(layer={"name": "gat", "dropout": 0.3}, norm="batch", dropout=0.5)
    twin = copy.deepcopy(stack)
    found, after = results(stack, graph), torch.rand(1)
    assert distance(found, results(twin, graph, forward=watched)) < 1e-10
    assert torch.equal(after, torch.rand(1))
    for ours, theirs in zip(stack.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)


def kept(stack, graph):
    """Bytes that the forward pass has autograd keep, without parameters."""
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        assert stack(X, graph).requires_grad
    ours = {parameter.untyped_storage().data_ptr() for parameter in stack.parameters()}
    return sum(size for place, size in sizes.items() if place not in ours)


def test_what_is_kept_for_the_backward_pass_does_not_grow_with_depth(graph):
    shallow, deep = (kept(stack_of(num_layers=layers), graph) for layers in (4, 32))
    assert shallow == deep > 0
    plain = (kept(stack_of(0, num_layers=layers), graph) for layers in (4, 32))
    assert next(plain) < next(plain)


def test_states_that_grow_too_much_to_be_undone_are_told_of(graph, caplog):
    stack = stack_of(layer="gcn", num_layers=60, dtype=torch.float32)
    with torch.no_grad():
        for layer in stack.layers:
            layer.lin.weight.mul_(5)
    scores = stack(X.float(), graph)
    with caplog.at_level(logging.WARNING, "gnn_depth"):
        (scores / scores.detach().norm()).sum().backward()
    assert "the recomputed first state" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reversible": 1}, "reversible is 1: .*at least 2 groups"),
        ({"reversible": 3}, "is 3.*hidden_channels, 8"),
        ({"decoder": "none"}, "decoder linear"),
        ({"skip": "none"}, "layer_scale or residual or rezero"),
        ({"layer": {"name": "gat", "heads": 2}}, "split_heads"),
        ({"layer": "gcnii"}, "no first state"),
        ({"skip": Oscillator}, "adds to the layer's input"),
    ],
)
def test_what_cannot_be_undone_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        stack_of(**options)
