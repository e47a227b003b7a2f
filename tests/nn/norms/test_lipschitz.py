import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.base import AdditiveScore, LinearScore
from gnn_depth.nn.layers import GAT, GATv2
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.stack import DeepGNN
from tests import reference


@pytest.fixture
def looped(graph):
    return graph.with_self_loops()


def linear_score(graph, heads=2, channels=3):
    h = torch.randn(graph.num_nodes, heads, channels, dtype=torch.float64, requires_grad=True)
    att_dst, att_src = (torch.randn(heads, channels, dtype=torch.float64, requires_grad=True) for _ in range(2))
    scores = (h * att_dst).sum(-1)[graph.target] + (h * att_src).sum(-1)[graph.source]
    return scores, LinearScore(h, att_dst, att_src)


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_paper_form_and_its_gradients_are_those_of_a_loop_over_neighbours(looped, scale):
    scores, made_of = linear_score(looped)
    ours = LipschitzNorm(2, scale=scale)(scores, made_of, looped)
    expected = reference.lipschitz(scores, made_of.x, made_of.att_dst, made_of.att_src, looped, scale)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    direction = torch.randn_like(ours)
    inputs = (made_of.x, made_of.att_dst, made_of.att_src)
    got = torch.autograd.grad(ours, inputs, direction, retain_graph=True)
    wanted = torch.autograd.grad(expected, inputs, direction)
    for gradient, expected_gradient in zip(got, wanted):
        torch.testing.assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("per_head", [True, False])
def test_the_released_form_is_the_authors_arithmetic_misread_maxima_included(looped, per_head):
    scores, made_of = linear_score(looped)
    ours = LipschitzNorm(2, form="released", per_head=per_head)(scores, made_of, looped)
    squares = made_of.x.square().sum(-1)
    flat = []
    for node in range(looped.num_nodes):
        neighbours = [int(looped.source[edge]) for edge in reference.in_edges(looped, node)]
        flat += [max(squares[k, head] for k in neighbours) for head in range(2)]
    for edge in range(looped.num_edges):
        i, j = int(looped.target[edge]), int(looped.source[edge])
        for head in range(2):
            pair = torch.cat([made_of.att_dst, made_of.att_src], -1)
            size = pair[head].norm() if per_head else pair.norm()
            expected = scores[edge, head] / (4 * size * (flat[i] + squares[j, head]).sqrt())
            torch.testing.assert_close(ours[edge, head], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_normalised_scores_never_exceed_one_over_the_scale(looped, size):
    scores, made_of = linear_score(looped)
    made_of = LinearScore(size * made_of.x, made_of.att_dst, made_of.att_src)
    assert (LipschitzNorm(2, scale=4.0)(size * scores, made_of, looped).abs() <= 0.25 + 1e-12).all()


def test_additive_scores_obey_the_same_bound(looped):
    layer = GATv2(4, 3, heads=2).double()
    x_dst, x_src = (50 * torch.randn(9, 2, 3, dtype=torch.float64) for _ in range(2))
    pairs = x_dst[looped.target] + x_src[looped.source]
    scores = (torch.nn.functional.leaky_relu(pairs, 0.2) * layer.att).sum(-1)
    normed = LipschitzNorm(2, scale=1.0)(scores, AdditiveScore(x_dst, x_src, layer.att), looped)
    assert (normed.abs() <= 1 + 1e-12).all()
    assert normed.abs().max() > 0.1


def largest_stretch(layer, x, graph):
    jacobian = torch.autograd.functional.jacobian(lambda v: layer(v, graph), x)
    return torch.linalg.matrix_norm(jacobian.reshape(x.numel(), -1), 2).item()


def test_the_jacobian_stays_bounded_while_inputs_grow_and_does_not_without_the_norm():
    # Node 0 sees two neighbours with equal scores and opposite features: there the softmax is steepest,
    # and moving a score by a unit moves the output by the distance of the features.
    graph = Graph(torch.tensor([[1, 2], [0, 0]]), 3)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.0, -1.0]], dtype=torch.float64)
    plain, normed = GAT(2, 2, bias=False).double(), GAT(2, 2, bias=False).double()
    normed.place(LipschitzNorm(1))
    for layer in (plain, normed):
        with torch.no_grad():
            layer.lin.weight.copy_(torch.eye(2))
            layer.att_src.copy_(torch.tensor([[1.0, 0.0]]))
            layer.att_dst.zero_()
    scales = (1, 10, 100, 1000)
    without, with_norm = ([largest_stretch(layer, s * x, graph) for s in scales] for layer in (plain, normed))
    assert all(value < 2 for value in with_norm)
    assert without[-1] > 50 * without[0]


def deep_gat(norms):
    torch.manual_seed(0)
    return DeepGNN(6, 3, GAT, num_layers=30, hidden_channels=4, norms=norms, activation="elu", decoder="linear")


def test_rows_that_underflow_to_zero_give_finite_gradients_in_thirty_layers(graph):
    stack = deep_gat([LipschitzNorm])
    with torch.no_grad():
        stack.layers[0].lin.weight.mul_(1e-30)  # squares underflow in float32 from here on
    x = torch.randn(9, 6)
    x[0] = 0
    stack(x, graph).sum().backward()
    assert all(p.grad.isfinite().all() for p in stack.parameters() if p.grad is not None)
    assert (stack.layers[0](stack.encoder(x), graph).square() == 0).any()


def test_without_its_guard_the_norm_has_no_finite_gradient_there(graph, monkeypatch):
    monkeypatch.setattr("gnn_depth.nn.norms.lipschitz.TINY", 0.0)
    layer = GAT(2, 3)
    layer.place(LipschitzNorm(1))
    x = torch.zeros(9, 2, requires_grad=True)
    layer(x, graph).sum().backward()
    assert not x.grad.isfinite().all()


def test_zero_rows_of_half_precision_stay_finite(graph):
    layer = GAT(2, 3).half()
    layer.place(LipschitzNorm(1))
    x = torch.zeros(9, 2, dtype=torch.float16, requires_grad=True)
    layer(x, graph).sum().backward()
    assert x.grad.isfinite().all()


def test_a_scale_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="scale of LipschitzNorm must be positive, not 0"):
        LipschitzNorm(1, scale=0.0)
