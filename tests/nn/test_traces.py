"""What PyTorch traces, transforms or only imitates has the numbers of an ordinary pass."""

import pytest
import torch
from jaxtyping import config
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from gnn_depth import DeepGNN

X, CHANGE = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
STACKS = {
    "gcn": {"layer": "gcn", "norm": "pair", "skip": "residual"},
    "gat": {"layer": {"name": "gat", "heads": 2}, "norm": "lipschitz"},
    "gatv2": {"layer": "gatv2", "norm": "lipschitz"},
    "transformer": {"layer": "transformer", "norm": "lipschitz"},
    "swan": {"layer": "swan"},
}


def by_vmap(stack, graph):
    return torch.func.vmap(lambda x: stack(x, graph))(torch.stack([X, 2 * X]))[0]


def by_make_fx(stack, graph):
    return make_fx(lambda x: stack(x, graph))(X)(X)


def after_fake_tensors(stack, graph):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        stack(mode.from_tensor(X), graph)
    return stack(X, graph)


def of_a_lazy_negative(stack, graph):
    return stack(torch.complex(torch.zeros_like(X), -X).conj().imag, graph)


def by_jit(stack, graph):
    """Recorded for other features and edges."""
    others = graph.edge_index.roll(1, 0)
    recorded = torch.jit.trace(stack, (2 * X, others), check_trace=False)
    return recorded(X, graph.edge_index)


WAYS = [by_vmap, by_make_fx, after_fake_tensors, of_a_lazy_negative]


@pytest.fixture(autouse=True)
def sizes_that_are_no_numbers():
    """Recorded sizes are symbols, which shape annotations do not know."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def stack_of(name):
    torch.manual_seed(0)
    return DeepGNN(4, 3, num_layers=2, hidden_channels=4, **STACKS[name]).eval()


@pytest.mark.filterwarnings("ignore")  # torch.jit.trace is old, and says so
@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("way", [*WAYS, by_jit])
def test_outputs_are_those_of_an_ordinary_pass(name, way, graph):
    stack = stack_of(name)
    torch.testing.assert_close(way(stack, graph), stack(X, graph))


@pytest.mark.parametrize("name", STACKS)
def test_derivatives_by_transforms_are_those_of_autograd(name, graph):
    stack = stack_of(name)

    def function(x):
        return stack(x, graph)

    x, weights = X.clone().requires_grad_(), torch.ones(9, 3, requires_grad=True)
    (back,) = torch.autograd.grad(function(x), x, weights, create_graph=True)
    (onward,) = torch.autograd.grad(back, weights, CHANGE)
    several = torch.stack([weights, 2 * weights]).detach()
    (rows,) = torch.autograd.grad(function(x), x, several, is_grads_batched=True)
    torch.testing.assert_close(rows[1], 2 * back.detach())
    torch.testing.assert_close(torch.func.vjp(function, X)[1](torch.ones(9, 3))[0], back.detach())
    torch.testing.assert_close(torch.func.jvp(function, (X,), (CHANGE,))[1], onward)
