"""Every skip connection against its formula, and what is particular to each."""

import pytest
import torch
import torch.nn.functional as F

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.skips import FeedForward, GradientGating, GraphCON, Ordered
from gnn_depth.registry import registered
from tests.reference import agree, drawn

#: Those that read the graph, carry a state or have a block of their own come last.
OWN_TESTS = ("gradient_gating", "graphcon", "ordered", "feed_forward")
SKIPS = {
    name: cls
    for name, cls in registered("skip").items()
    if cls.__module__.startswith("gnn_depth.") and name not in OWN_TESTS
}

#: Widths of the states; the update has 3 channels.
GRAPH = Graph(torch.tensor([[0, 1], [1, 2]]), 4)  # no built-in skip connection reads it
WIDTHS = {"equal": [3, 3], "first_differs": [5, 3], "last_differs": [3, 2], "one_state": [4]}


def inputs(widths):
    """An update and the states."""
    return [torch.randn(4, w, dtype=torch.float64, requires_grad=True) for w in (3, *widths)]


def formula(name, skip, update, states):
    if name == "none":
        return update
    if name == "dense":
        return torch.cat([states[-1], update], 1)
    if name == "linear":
        return update + states[-1] @ skip.lin.weight.t()
    if name == "adaptive_initial":
        strength = torch.sigmoid(states[0] @ skip.strength.weight.t())
        return strength * update + (1 - strength) * (states[0] @ skip.lin.weight.t())
    if name == "gated_local":
        gate = torch.relu(states[-1] @ skip.gate.weight.t() + skip.gate.bias)
        beta = torch.sigmoid(skip.beta)
        return (1 - beta) * skip.norm(gate * update) + beta * update
    kept = states[0 if name == "initial_residual" else -1]
    if hasattr(skip.project, "weight"):
        kept = kept @ skip.project.weight.t()
    if name == "initial_residual":
        return skip.alpha * kept + (1 - skip.alpha) * update
    if name == "gated":
        opened = 1 / (1 + (-skip.bias - states[-1] @ skip.gate.weight.t()).exp())
        return opened * update + (1 - opened) * kept
    return kept + (1 if name == "residual" else skip.scale) * update


@pytest.mark.parametrize("name", SKIPS)
@pytest.mark.parametrize("kind", WIDTHS)
def test_a_skip_and_its_gradients_are_those_of_its_formula(name, kind):
    skip, (update, *states) = drawn(SKIPS[name](WIDTHS[kind], 3)), inputs(WIDTHS[kind])
    expected = formula(name, skip, update, states)
    assert expected.shape == (4, skip.width)
    assert kind != "equal" or not list(
        getattr(skip, "project", torch.nn.Identity()).parameters()
    )  # needs no map
    into = [update, *states, *skip.parameters()]
    agree(skip(update, states, GRAPH), expected, into, allow_unused=True)


@pytest.mark.parametrize(
    ("name", "option"), [("gated", "bias"), ("rezero", "initial"), ("layer_scale", "initial")]
)
def test_an_init_leaves_what_a_skip_begins_with(name, option):
    stack = DeepGNN(6, 3, skip={"name": name, option: -2.5}, init="xavier")
    for joined in stack.skips:
        begins = joined.bias if name == "gated" else joined.scale
        assert (begins == -2.5).all()


def rows(*widths):
    return [torch.randn(9, width, dtype=torch.float64, requires_grad=True) for width in widths]


@pytest.mark.parametrize("p", [1.0, 2.0, 2.5])
def test_gradient_gating_is_its_formula_node_by_node(p, graph):
    skip, (update, x) = drawn(GradientGating([4], 4, p)), rows(4, 4)
    gates = []
    for node in range(9):
        sources = graph.source[graph.target == node]
        if len(sources):
            gates.append((update[node] - update[sources]).abs().pow(p).mean(0).tanh())
        else:
            gates.append(torch.zeros(4, dtype=torch.float64))
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
    torch.testing.assert_close(second[:, -1], torch.ones(9, dtype=torch.float64))


def test_feed_forward_is_its_formula(graph):
    skip, (update, x) = drawn(FeedForward([4], 4)), rows(4, 4)
    h, batch = x + update, skip.after.norm
    inner = torch.relu(h @ skip.inner.weight.t() + skip.inner.bias)
    result = h + inner @ skip.outer.weight.t() + skip.outer.bias
    result = F.batch_norm(result, None, None, batch.weight, batch.bias, training=True)
    agree(skip(update, [x], graph), result, [update, x, *skip.parameters()])
