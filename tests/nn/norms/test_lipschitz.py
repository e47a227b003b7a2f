from functools import partial

import pytest
import torch

from gnn_depth.nn.functional import edge_additive, edge_dot
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.scores import AdditiveScore, LinearScore, QuadraticScore
from tests import reference


@pytest.fixture
def looped(graph):
    return graph.with_self_loops()


def draw(*shape, size=1.0):
    return (size * torch.randn(*shape, dtype=torch.float64)).requires_grad_()


def linear(graph, size=1.0):
    """Scores, what they are made of, and the same as the loops take it."""
    h, att_dst, att_src = draw(graph.num_nodes, 2, 3, size=size), draw(2, 3), draw(2, 3)
    scores = (h * att_dst).sum(-1)[graph.target] + (h * att_src).sum(-1)[graph.source]
    return scores, LinearScore(h, att_dst, att_src), (h, h, att_dst, att_src)


def additive(graph, size=1.0):
    x_dst, x_src = (draw(graph.num_nodes, 2, 3, size=size) for _ in range(2))
    att = draw(2, 3)
    scores = edge_additive(x_dst, x_src, att, graph)
    return scores, AdditiveScore(x_dst, x_src, att), (x_dst, x_src, att, att)


def quadratic(graph, size=1.0):
    parts = tuple(draw(graph.num_nodes, 2, 3, size=size) for _ in range(3))
    return edge_dot(*parts[:2], graph) / 3**0.5, QuadraticScore(*parts), parts


LOOPS = {
    (linear, "paper"): reference.lipschitz,
    (linear, "released"): reference.released_lipschitz,
    (additive, "paper"): reference.lipschitz,
    (additive, "released"): reference.released_lipschitz,
    (quadratic, "paper"): reference.quadratic_lipschitz,
    (quadratic, "released"): reference.released_quadratic_lipschitz,
}


def assert_is(norm, loop, drawn, graph):
    """The norm is the loop, and so are its gradients with respect to all that scores are made
    of."""
    scores, made_of, parts = drawn
    ours, expected = norm(scores, made_of, graph), loop(scores, parts, graph)
    reference.agree(ours, expected, list(dict.fromkeys(parts)))


@pytest.mark.parametrize(("score", "form"), LOOPS)
@pytest.mark.parametrize("with_loops", [True, False])
def test_each_form_for_each_score_and_its_gradients_are_those_of_a_loop(
    score, form, with_loops, graph
):
    if with_loops:
        graph = graph.with_self_loops()
    loop = LOOPS[score, form]
    assert_is(LipschitzNorm(2, scale=2.5, form=form), partial(loop, scale=2.5), score(graph), graph)
    default = 1 if score is quadratic else 4
    assert_is(LipschitzNorm(2, form=form), partial(loop, scale=default), score(graph), graph)


@pytest.mark.parametrize("score", [linear, additive])
@pytest.mark.parametrize("form", ["paper", "released"])
def test_attention_may_be_measured_over_all_heads_at_once(score, form, looped):
    norm, loop = LipschitzNorm(2, form=form, per_head=False), LOOPS[score, form]
    assert_is(norm, partial(loop, scale=4, per_head=False), score(looped), looped)


def test_zeros_have_finite_gradients_whose_squared_inverse_float32_holds(graph):
    parts = [torch.zeros(graph.num_nodes, 2, 3, requires_grad=True) for _ in range(3)]
    normed = LipschitzNorm(2)(edge_dot(*parts[:2], graph), QuadraticScore(*parts), graph)
    assert not normed.any()
    for gradient in torch.autograd.grad(normed.sum(), parts):
        assert gradient.isfinite().all()


def slopes(scores, parts, edge):
    """Norms of the derivatives of a score of head 0 by its ends: of each if quadratic, or both."""
    ends = list(dict.fromkeys(parts[:2]))
    gradients = torch.autograd.grad(scores[edge, 0], ends, retain_graph=True)
    if len(parts) == 3:
        return [gradient.norm() for gradient in gradients]
    return [torch.cat(gradients).norm()]


def largest_features(parts, target, sources):
    """Of values if scores are quadratic, else of the pair of a target and a source."""
    if len(parts) == 3:
        return max(parts[2][k, 0].norm() for k in sources)
    return max(torch.cat([parts[0][target, 0], parts[1][k, 0]]).norm() for k in sources)


@pytest.mark.parametrize("score", [linear, additive, quadratic])
@pytest.mark.parametrize("size", [1e-2, 1.0, 1e3])
def test_derivatives_of_the_scores_times_the_size_of_the_features_obey_the_bound(
    score, size, graph
):
    scores, made_of, parts = score(graph, size)
    norm = LipschitzNorm(2)
    factor, bound = norm(scores, made_of, graph) / scores, norm.bound(type(made_of), channels=3)
    seen = []
    for edge, (i, j) in enumerate(zip(graph.target.tolist(), graph.source.tolist())):
        if i != j:
            features = largest_features(parts, i, graph.source[graph.target == i].tolist())
            for slope in slopes(scores, parts, edge):
                seen.append((slope * factor[edge, 0] * features / bound).item())
    assert 0.3 < max(seen) <= 1 + 1e-9


def test_nothing_is_known_of_the_released_form():
    released = LipschitzNorm(2, form="released")  # which reads the sizes of other nodes
    assert released.bound(LinearScore, 8) is None
    assert LipschitzNorm(2).nodewise
    assert not released.nodewise
    assert LipschitzNorm(1).bound(LinearScore, 16) == 0.25
    assert LipschitzNorm(1).bound(QuadraticScore, 16) == 0.25
    assert LipschitzNorm(1, scale=2.0).bound(AdditiveScore, 16) == 0.5
