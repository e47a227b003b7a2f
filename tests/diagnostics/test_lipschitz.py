import math

import pytest
import torch
from torch import nn

import gnn_depth.nn  # noqa: F401  (registers the layers)
from gnn_depth.diagnostics.lipschitz import local_lipschitz
from gnn_depth.graph import Graph
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.parts import AttentionLayer
from gnn_depth.registry import registered

LAYERS = registered("layer")
CASES = [
    (name, norm)
    for name, cls in LAYERS.items()
    for norm in ("none", "lipschitz")[: 1 + issubclass(cls, AttentionLayer)]
]
CORNERS = [("gcn", "none"), ("sage", "none"), ("gat", "lipschitz"), ("transformer", "lipschitz")]


def make(name, norm):
    attention = issubclass(LAYERS[name], AttentionLayer)
    layer = LAYERS[name](5, 5, **({"heads": 2} if attention else {})).double().eval()
    if norm == "lipschitz":
        layer.add_score_norm(LipschitzNorm(2, scale=0.5))
    return layer


def dense(function, x):
    return torch.autograd.functional.jacobian(function, x).reshape(-1, x.numel())


def matrix(values):
    """A function whose Jacobian has these singular values, and turns what it is given."""
    left, right = (
        torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64)).Q
        for _ in range(2)
    )
    return left @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ right


@pytest.mark.parametrize(
    ("name", "norm", "kind"),
    [
        *((*case, "graph") for case in CASES),
        *((*case, kind) for case in CORNERS for kind in ("no_edges", "one_node")),
    ],
)
def test_of_every_layer_it_is_the_largest_singular_value_of_the_dense_jacobian(
    name, norm, kind, graph
):
    structure = {
        "graph": graph,
        "no_edges": Graph(torch.zeros(2, 0).long(), 4),
        "one_node": Graph(torch.zeros(2, 1).long(), 1),
    }[kind]
    layer, x = make(name, norm), torch.randn(structure.num_nodes, 5, dtype=torch.float64)

    def function(v):
        return layer(v, structure)

    expected = torch.linalg.matrix_norm(dense(function, x), 2).item()
    found = local_lipschitz(function, x, tolerance=1e-7, max_iterations=1000)
    assert found == pytest.approx(expected, rel=1e-6)
    assert found <= expected * (1 + 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_sizes_that_squared_leave_float32_are_measured(dtype, size):
    weight = matrix([4.0, 3.9, 1.0, 0.5]).to(dtype)
    stretch = local_lipschitz(
        lambda x: size * (weight @ x), torch.ones(4, dtype=dtype), tolerance=1e-6
    )
    assert stretch == pytest.approx(4 * size, rel=1e-6)


def test_close_singular_values_take_few_rounds():
    weight = matrix([1.0, *torch.linspace(0.999, 0.1, 60).tolist()])
    start = torch.zeros(61, dtype=torch.float64)
    found = local_lipschitz(lambda x: weight @ x, start, max_iterations=60, tolerance=1e-9)
    assert found == pytest.approx(1, rel=1e-7)  # by power iteration 1 - 1e-4


@pytest.mark.parametrize(
    ("function", "constant"),
    [
        (lambda x: 0 * x + 3, 0),
        (lambda x: x * torch.nan, math.nan),
        (lambda x: x * torch.inf, math.nan),
        (lambda x: (x - 1).abs().sqrt(), math.nan),
    ],
)
def test_a_constant_function_has_zero_and_a_jacobian_that_is_not_finite_none(function, constant):
    assert local_lipschitz(function, torch.ones(4)) == pytest.approx(constant, nan_ok=True)


def test_it_is_the_same_in_every_call_and_leaves_random_numbers_and_gradients_alone():
    layer, x = nn.Linear(6, 4), torch.randn(3, 6, requires_grad=True)
    state = torch.get_rng_state()
    first, second = (local_lipschitz(layer, x) for _ in range(2))
    assert first == second
    assert first == pytest.approx(torch.linalg.matrix_norm(layer.weight, 2).item(), rel=1e-4)
    assert torch.equal(state, torch.get_rng_state())
    assert layer.weight.grad is None
