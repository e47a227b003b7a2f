"""Skip connections that read the graph, carry a state or have weights, against their formulas."""

import pytest
import torch
import torch.nn.functional as F

from gnn_depth.nn.skips import (
    AdaptiveInitial,
    FeedForward,
    GatedLocal,
    GradientGating,
    GraphCON,
    Ordered,
)
from tests.reference import agree, drawn

DTYPE = torch.float64


def rows(*widths):
    return [torch.randn(9, width, dtype=DTYPE, requires_grad=True) for width in widths]


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
def test_gradient_gating_is_its_formula_node_by_node(p, graph):
    skip, (update, x) = drawn(GradientGating([4], 4, p)), rows(4, 4)
    gates = []
    for node in range(9):
        sources = graph.source[graph.target == node]
        if len(sources):
            gates.append((update[node] - update[sources]).abs().pow(p).mean(0).tanh())
        else:
            gates.append(torch.zeros(4, dtype=DTYPE))
    gate = torch.stack(gates)
    agree(skip(update, [x], graph), (1 - gate) * x + gate * update, [update, x])


def test_an_oscillator_moves_by_its_velocity_which_starts_as_the_state(graph):
    skip = GraphCON([4], 4, step_size=0.5, damping=0.3, frequency=0.7)
    update, x, later = rows(4, 4, 4)
    state, velocity = skip(update, [x], graph)
    wanted_velocity = x + 0.5 * (update - 0.3 * x - 0.7 * x)
    torch.testing.assert_close(velocity, wanted_velocity)
    torch.testing.assert_close(state, x + 0.5 * wanted_velocity)
    second, faster = skip(later, [state], graph, velocity)
    torch.testing.assert_close(faster, velocity + 0.5 * (later - 0.3 * velocity - 0.7 * state))
    torch.testing.assert_close(second, state + 0.5 * faster)


def test_ordered_gating_is_its_formula_and_the_gates_never_close_again(graph):
    skip, (update, x, later) = drawn(Ordered([8], 8, chunks=4)), rows(8, 8, 8)

    def opened(x, update):
        scores = torch.cat([x, update], 1) @ skip.gate.weight.t() + skip.gate.bias
        return scores.softmax(1).cumsum(1)

    first = opened(x, update)
    channels = first.repeat_interleave(2, 1)
    state, gate = skip(update, [x], graph)
    torch.testing.assert_close(gate, first)
    agree(state, skip.norm(channels * x + (1 - channels) * update), [update, x])
    _, second = skip(later, [state], graph, gate)
    torch.testing.assert_close(second, first + (1 - first) * opened(state, later))
    assert (second >= gate - 1e-12).all()
    torch.testing.assert_close(second[:, -1], torch.ones(9, dtype=DTYPE))


def test_feed_forward_and_gated_local_are_their_formulas(graph):
    for norm in ("none", "layer", "batch"):
        skip, (update, x) = drawn(FeedForward([4], 4, norm=norm)), rows(4, 4)
        h = x + update
        normed = h
        if norm == "layer":
            normed = F.layer_norm(h, [4], skip.before.weight, skip.before.bias)
        inner = torch.relu(normed @ skip.inner.weight.t() + skip.inner.bias)
        result = h + inner @ skip.outer.weight.t() + skip.outer.bias
        if norm == "batch":
            batch = skip.after.norm
            result = F.batch_norm(result, None, None, batch.weight, batch.bias, training=True)
        agree(skip(update, [x], graph), result, [update, x, *skip.parameters()])
    skip = drawn(GatedLocal([4], 4))
    gate = torch.relu(x @ skip.gate.weight.t() + skip.gate.bias)
    beta = torch.sigmoid(skip.beta)
    agree(
        skip(update, [x], graph),
        (1 - beta) * skip.norm(gate * update) + beta * update,
        [update, x, *skip.parameters()],
    )


def test_each_node_mixes_in_its_first_state_by_a_strength_of_its_own(graph):
    skip, (update, first) = drawn(AdaptiveInitial([5, 4], 4)), rows(4, 5)
    strength = torch.sigmoid(first @ skip.strength.weight.t())
    assert strength.shape == (9, 1)
    agree(
        skip(update, [first], graph),
        strength * update + (1 - strength) * (first @ skip.lin.weight.t()),
        [update, first, *skip.parameters()],
    )
