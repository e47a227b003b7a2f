"""Every skip connection against its formula, and what is particular to each."""

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.registry import registered
from tests.reference import agree, drawn

#: The others are in test_remedies.py.
NAMES = ("none", "residual", "rezero", "layer_scale", "gated", "initial_residual", "dense")
SKIPS = {name: registered("skip")[name] for name in NAMES}
every_skip = pytest.mark.parametrize("name", SKIPS)

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
    kept = states[0 if name == "initial_residual" else -1]
    if hasattr(skip.project, "weight"):
        kept = kept @ skip.project.weight.t()
    if name == "initial_residual":
        return skip.alpha * kept + (1 - skip.alpha) * update
    if name == "gated":
        opened = 1 / (1 + (-skip.bias - states[-1] @ skip.gate.weight.t()).exp())
        return opened * update + (1 - opened) * kept
    return kept + (1 if name == "residual" else skip.scale) * update


@every_skip
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
