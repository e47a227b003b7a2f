"""Every skip connection against its formula, and what is particular to each."""

import math

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.registry import registered
from tests.reference import agree

#: The others are in test_remedies.py.
NAMES = ("none", "residual", "rezero", "layer_scale", "gated", "initial_residual", "dense")
SKIPS = {name: registered("skip")[name] for name in NAMES}
every_skip = pytest.mark.parametrize("name", SKIPS)

#: Widths of the states; the update has 3 channels.
GRAPH = Graph(torch.tensor([[0, 1], [1, 2]]), 4)  # no built-in skip connection reads it
WIDTHS = {"equal": [3, 3], "first_differs": [5, 3], "last_differs": [3, 2], "one_state": [4]}


def make(name, widths, dtype=torch.float64):
    """A skip whose every parameter is drawn."""
    skip = SKIPS[name](widths, 3).to(dtype)
    with torch.no_grad():
        for parameter in skip.parameters():
            parameter.normal_()
    return skip


def inputs(widths, nodes=4, dtype=torch.float64, draw=torch.randn):
    """An update and the states."""
    return [draw(nodes, width, dtype=dtype, requires_grad=True) for width in (3, *widths)]


def mapped(project, row):
    """A row of a state at the width of what it joins."""
    weight = getattr(project, "weight", None)
    return (
        row
        if weight is None
        else torch.stack([sum(w * v for w, v in zip(line, row)) for line in weight])
    )


def of_all_nodes(name, skip, update, states):
    return torch.stack(
        [
            torch.stack(of_node(name, skip, update[i], [x[i] for x in states]))
            for i in range(len(update))
        ]
    )


def of_node(name, skip, update, states):
    if name == "none":
        return list(update)
    if name == "dense":
        return [*states[-1], *update]
    kept = mapped(skip.project, states[0 if name == "initial_residual" else -1])
    if name == "initial_residual":
        return [skip.alpha * old + (1 - skip.alpha) * new for old, new in zip(kept, update)]
    if name == "gated":
        inside = [
            b + sum(w * v for w, v in zip(line, states[-1]))
            for b, line in zip(skip.bias, skip.gate.weight)
        ]
        opened = [1 / (1 + math.e ** (-value)) for value in inside]
        return [t * new + (1 - t) * old for t, old, new in zip(opened, kept, update)]
    scale = torch.ones(1) if name == "residual" else skip.scale
    return [
        old + scale.expand(len(update))[channel] * update[channel]
        for channel, old in enumerate(kept)
    ]


@every_skip
@pytest.mark.parametrize("kind", WIDTHS)
def test_a_skip_and_its_gradients_are_those_of_a_loop_over_nodes(name, kind):
    skip, (update, *states) = make(name, WIDTHS[kind]), inputs(WIDTHS[kind])
    expected = of_all_nodes(name, skip, update, states)
    assert expected.shape == (4, skip.width)
    assert kind != "equal" or not list(
        getattr(skip, "project", torch.nn.Identity()).parameters()
    )  # needs no map
    into = [update, *states, *skip.parameters()]
    agree(skip(update, states, GRAPH), expected, into, allow_unused=True)
