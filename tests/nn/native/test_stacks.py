"""Whole stacks on kernels are the stacks on PyTorch alone, and promises of parts that kernels use hold."""

import pytest
import torch

from gnn_depth.nn import DeepGNN, native
from gnn_depth.nn.parts import Skip
from gnn_depth.nn.skips import Residual
from gnn_depth.registry import registered
from tests.nn.functional.cases import distance
from tests.nn.functional.graphs import GRAPHS

needs_kernels = pytest.mark.skipif(native.available_for() is None, reason="there are no kernels")

STACKS = {
    "gcn": {"layer": "gcn", "skip": "residual"},
    "gcn_without_skip": {"layer": "gcn", "activation": "identity"},
    "gcn_with_norms": {"layer": "gcn", "skip": "residual", "norm": ["layer", "spectral"]},
    "gat": {"layer": {"name": "gat", "heads": 2, "dropout": 0.3}, "dropout": 0.5},
    "gat_lip": {"layer": "gat", "norm": ["lipschitz", "layer"], "activation": "elu"},
    "gat_lip_released": {"layer": "gat", "norm": {"name": "lipschitz", "form": "released"}},
    "gatv2_lip": {"layer": "gatv2", "norm": "lipschitz", "skip": "residual"},
    "transformer": {"layer": {"name": "transformer", "heads": 2}, "norm": "lipschitz"},
    "checkpointed": {"layer": "gcn", "skip": "residual", "checkpoint_every": 2},
    "reversible": {"layer": "gcn", "skip": "residual", "reversible": 2},
}


def passes(stack, x, graph, num_outputs=None):
    torch.manual_seed(3)
    out = stack(x, graph, num_outputs)
    parameters = list(stack.parameters())
    gradients = torch.autograd.grad(out.square().sum(), parameters, materialize_grads=True)
    return [out.detach()], gradients


@needs_kernels
@pytest.mark.parametrize("kind", ["directed", "symmetric", "isolated"])
@pytest.mark.parametrize("name", STACKS)
def test_a_stack_computes_the_same_with_and_without_kernels(name, kind):
    graph = GRAPHS[kind]()
    stack = DeepGNN(5, 3, num_layers=3, hidden_channels=32, **STACKS[name])
    x = torch.randn(graph.num_nodes, 5)
    for num_outputs in (None, 2):
        state = {key: value.clone() for key, value in stack.state_dict().items()}
        fast = passes(stack, x, graph, num_outputs)
        stack.load_state_dict(state)  # of power iterations
        with native.without_kernels():
            slow = passes(stack, x, graph, num_outputs)
        stack.load_state_dict(state)
        assert distance(fast[0], slow[0]) <= 1e-5
        assert distance(fast[1], slow[1]) <= 1e-4


@needs_kernels
def test_hooks_on_parts_are_called_where_a_kernel_would_compute_a_whole_block(graph):
    called = []
    stack = DeepGNN(5, 3, num_layers=2, hidden_channels=16, layer="gcn", skip="residual")
    gat = DeepGNN(5, 3, num_layers=2, hidden_channels=16, layer="gat", norm="lipschitz")
    watched = [stack.layers[1], stack.skips[0], gat.layers[1].score_norms[0]]
    for module in watched:
        module.register_forward_hook(lambda module, *_: called.append(module))
    x = torch.randn(graph.num_nodes, 5)
    stack(x, graph)
    gat(x, graph)
    assert all(any(module is each for each in called) for module in watched)


def test_skip_connections_that_say_so_add_the_input_or_pass_on_the_update(graph):
    known: dict[str, type[Skip]] = registered("skip")
    promises = set()
    for cls in known.values():
        skip = cls([8], 8)
        promises.add(skip.adds_input)
        if skip.adds_input is not None:
            update, x = torch.randn(9, 8), torch.randn(9, 8)
            wanted = x + update if skip.adds_input else update
            assert torch.equal(skip(update, [x], graph), wanted)
    assert promises == {True, False, None}
    assert Residual([3], 8).adds_input is None  # it has a matrix in between
