"""Compiled stacks give the same numbers, and built-in parts conform, in a process of its own: torch
cannot compile through the shape checks of tests."""

import jaxtyping
import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.testing import checks
from tests.processes import call_in_fresh_process
from tests.testing.test_built_in import CHECKS, PARTS

STACKS = [
    {"layer": "gcn", "skip": "residual", "norm": "layer"},
    {"layer": {"name": "gat", "heads": 2}, "norm": "lipschitz", "activation": "elu"},
    {"layer": "gatv2", "jump": "cat"},
]


def step(stack, graph):
    torch.manual_seed(3)
    x = torch.linspace(-1, 1, 5 * graph.num_nodes).view(-1, 5)
    out = stack(x, graph)
    gradients = torch.autograd.grad(out.square().sum(), list(stack.parameters()))
    return [out.detach(), *gradients]


def compare():
    """Exits with an error if a compiled stack gives other numbers than the same one uncompiled."""
    jaxtyping.config.update("jaxtyping_disable", True)
    torch.manual_seed(0)
    graph = Graph(torch.randint(12, (2, 40)), 12)
    for options in STACKS:
        stack = DeepGNN(5, 3, num_layers=3, hidden_channels=4, dropout=0.3, **options)
        expected = step(stack, graph)
        stack.compile_layers()
        for ours, theirs in zip(step(stack, graph), expected, strict=True):
            torch.testing.assert_close(ours, theirs)


def conform(labels):
    """Checks that torch.compile takes parts as a whole."""
    jaxtyping.config.update("jaxtyping_disable", True)
    for suite in ("COMMON", "OF_GRAPHS"):
        kept = [
            each for each in getattr(checks, suite) if each.name in ("shape", "compile", "batch")
        ]
        setattr(checks, suite, kept)
    for kind, name, options in map(PARTS.get, labels):
        CHECKS[kind](name, **options)


#: In every run: sums, attention, and a norm of neighbourhoods.
PROMPT = ["layer, gcn", "layer, gat", "norm, neighbor"]
COMPILABLE = [label for label, (kind, *_) in PARTS.items() if kind in ("layer", "norm", "skip")]


@pytest.mark.parametrize("labels", [PROMPT, pytest.param(COMPILABLE, marks=pytest.mark.slow)])
def test_built_in_parts_are_compiled_as_a_whole(labels, tmp_path):
    call_in_fresh_process(tmp_path, conform, labels)


def test_a_compiled_stack_gives_the_same_numbers_with_dropout(tmp_path):
    call_in_fresh_process(tmp_path, compare)
