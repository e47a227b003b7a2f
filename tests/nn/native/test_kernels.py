"""The kernels against PyTorch's own operations in float64, at sizes that loops cannot reach."""

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn import native
from gnn_depth.nn.functional import (
    aggregate,
    attend_additive,
    attend_linear,
    convolution,
    edge_additive,
    edge_dot,
    elu,
    neighbourhood_size,
)
from tests.nn.functional.cases import CASES, OF_GRAPHS, distance

pytestmark = pytest.mark.skipif(
    native.available_for() is None, reason="there are no native kernels"
)

SOURCES = 1500


@pytest.fixture(scope="module")
def degrees():
    """A graph whose nodes have 100,000, 10,000, 5, 1 and no edges, most of them one way."""
    counts = torch.tensor([100_000, 10_000, *[5, 1, 0] * 499, 0])
    target = torch.repeat_interleave(torch.arange(SOURCES), counts)
    draws = torch.Generator().manual_seed(0)
    source = torch.randint(SOURCES - 1, target.shape, generator=draws)  # the last one sends nothing
    return Graph(torch.stack([source, target]), SOURCES)


def plain(function, *args):
    with native.without_kernels():
        return function(*args)


def with_gradients(function, inputs):
    """The value, and the gradients along a direction of its own."""
    inputs = [value.detach().requires_grad_() for value in inputs]
    out = function(*inputs)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    return [out.detach(), *torch.autograd.grad(out, inputs, direction.to(out.dtype))]


@pytest.mark.parametrize(("heads", "channels"), [(1, 64), (2, 16), (4, 7), (8, 3)])
@pytest.mark.parametrize("name", OF_GRAPHS)
def test_float32_is_float64_to_its_rounding_at_any_degree_and_width(name, heads, channels, degrees):
    case = CASES[name]
    inputs = case.inputs(degrees, heads, torch.float32, channels)

    def function(*values):
        return case.ours(*values, degrees)

    narrow = with_gradients(function, inputs)
    wide = plain(with_gradients, function, [value.double() for value in inputs])
    for got, wanted in zip(narrow, wide):
        # Sums of 100,000 numbers in float32.
        assert distance([got], [wanted]) <= 1e-4


@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 64), (16, 16), (48, 112), (256, 32)])
def test_a_whole_block_is_its_parts_in_float64(relu, residual, inputs, outputs, degrees):
    if residual and inputs != outputs:
        outputs = inputs
    weights = degrees.mean_weights(torch.float64)
    given = [torch.randn(SOURCES, inputs), torch.randn(outputs, inputs), torch.randn(outputs)]

    def block(x, weight, bias):
        return convolution(x, weight, bias, weights.to(x.dtype), degrees, relu, residual)

    narrow = with_gradients(block, given)
    wide = plain(with_gradients, block, [value.double() for value in given])
    for got, wanted in zip(narrow, wide):
        assert distance([got], [wanted]) <= 2e-6


@pytest.mark.parametrize("function", ["block", "elu"])
def test_second_derivatives_are_those_of_the_parts(function, graph):
    weights = graph.gcn_weights(torch.float32)
    inputs = [torch.randn(9, 16), torch.randn(16, 16)]

    def energy(x, weight):
        if function == "elu":
            return elu(x @ weight).pow(3).sum()
        return convolution(x, weight, None, weights, graph, True, True).pow(3).sum()

    def second(*values):
        values = [value.detach().requires_grad_() for value in values]
        first = torch.autograd.grad(energy(*values), values, create_graph=True)
        return torch.autograd.grad(sum(part.square().sum() for part in first), values)

    assert distance(second(*inputs), plain(second, *inputs)) <= 1e-5


def test_what_is_not_a_number_stays_so(graph):
    x = torch.zeros(9, 1, 16)
    x[2] = torch.nan
    weights = torch.ones(graph.num_edges, 1)
    receives = torch.zeros(9, dtype=torch.bool)
    receives[graph.target[graph.source == 2]] = True
    att = torch.ones(1, 16)
    for out in (aggregate(weights, x, graph), attend_linear(x, att, att, graph, 0.2)):
        assert out[receives].isnan().all()
    assert elu(x)[2].isnan().all()
    assert neighbourhood_size(x, x, graph)[receives].isnan().all()
    bias, weight = torch.zeros(16), torch.eye(16)
    out = convolution(x[:, 0], weight, bias, weights[:, 0], graph, True, False)
    assert out[receives].isnan().all()


def test_numbers_are_the_same_for_any_number_of_threads(degrees):
    drawn = {name: CASES[name].inputs(degrees, 2, torch.float32, 64) for name in OF_GRAPHS}
    matrix, square = torch.randn(SOURCES, 64), torch.randn(64, 64)
    weights = degrees.mean_weights(torch.float32)

    def everything():
        found = with_gradients(elu, [matrix])
        for name, inputs in drawn.items():
            found += with_gradients(lambda *v, ours=CASES[name].ours: ours(*v, degrees), inputs)
        found += with_gradients(
            lambda x, w: convolution(x, w, None, weights, degrees, True, True), [matrix, square]
        )
        return found

    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(everything())
    finally:
        torch.set_num_threads(before)
    for first, *others in zip(*results):
        assert all(torch.equal(first, other) for other in others)


def test_a_graph_without_nodes_has_empty_results():
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), 0)
    x = torch.randn(0, 2, 16, requires_grad=True)
    att = torch.randn(2, 16, requires_grad=True)
    out = attend_linear(x, att, att, graph, 0.2) + attend_additive(x, x, att, graph, 0.2)
    out.sum().backward()
    assert out.shape == x.shape
    assert (att.grad == 0).all()


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (aggregate, [(12, 2), (9, 2, 16)]),
        (edge_dot, [(9, 2, 16), (9, 2, 15)]),
        (edge_additive, [(9, 2, 16), (9, 2, 16), (2, 15)]),
        (neighbourhood_size, [(8, 2, 16), (9, 2, 16)]),
    ],
)
def test_tensors_of_wrong_shapes_are_refused_not_read_past_their_end(function, shapes, graph):
    call = getattr(function, "__wrapped__", function)  # without the checks of annotations in tests
    assert graph.num_edges == 13
    with pytest.raises(Exception, match="must have the shape|type-check"):
        call(*map(torch.randn, shapes), graph)
