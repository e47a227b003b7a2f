"""The fast functions are the loops over nodes and neighbours in tests/reference.py, with all their
gradients."""

import pytest
import torch

from gnn_depth.nn import native
from tests.nn.functional.cases import CASES, OF_GRAPHS, distance
from tests.nn.functional.graphs import GRAPHS


def gradient_of(out, inputs):
    """The gradients along a fixed random direction; zero for inputs that a loop over no edges never
    sees."""
    if not out.requires_grad:
        return tuple(torch.zeros_like(value) for value in inputs)
    direction = torch.randn(
        out.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)
    ).to(out.dtype)
    return torch.autograd.grad(
        out, inputs, direction, retain_graph=True, allow_unused=True, materialize_grads=True
    )


@pytest.fixture(params=["kernels", "plain"])
def path(request):
    """The way that primitives take: native kernels, where they can be compiled, or PyTorch."""
    if request.param == "kernels" and native.available_for() is None:
        pytest.skip(native.why_not())
    before = native.use(request.param == "kernels")
    yield request.param
    native.use(before)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("kind", "heads"), [("directed", 1), *((kind, 3) for kind in GRAPHS)])
def test_values_and_gradients_are_those_of_a_loop(name, kind, heads):
    case, graph = CASES[name], GRAPHS[kind]()
    inputs = case.inputs(graph, heads)
    ours, loop = case.ours(*inputs, graph), case.loop(*inputs, graph)
    assert ours.requires_grad
    assert distance([ours], [loop]) <= 1e-12
    assert distance(gradient_of(ours, inputs), gradient_of(loop, inputs)) <= 1e-12


@pytest.mark.parametrize("kind", ["directed", "symmetric"])
def test_strided_and_expanded_tensors_give_what_contiguous_ones_give(kind):
    graph = GRAPHS[kind]()
    for name in OF_GRAPHS:
        case = CASES[name]
        inputs = case.inputs(graph, 3)
        strided = []
        for value in inputs:
            turned = value.detach().transpose(0, -1).contiguous().transpose(0, -1)
            strided.append(turned.requires_grad_())
        ours, wanted = case.ours(*strided, graph), case.ours(*inputs, graph)
        assert distance([ours], [wanted]) <= 1e-14
        assert distance(gradient_of(ours, strided), gradient_of(wanted, inputs)) <= 1e-14
        # The gradient of a sum is an expanded number.
        of_sums = torch.autograd.grad(ours.sum(), strided)
        assert distance(of_sums, torch.autograd.grad(wanted.sum(), inputs)) <= 1e-14
