"""First and second derivatives of the fast functions against differences."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from gnn_depth.nn import native
from gnn_depth.nn.functional import rules
from tests.nn.functional.cases import CASES, distance
from tests.nn.functional.graphs import GRAPHS

every_way = pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name in CASES for kind in ("symmetric", "block")]
)


def of_one_graph(name, kind, heads=2):
    case, graph = CASES[name], GRAPHS[kind]()
    return lambda *inputs: case.ours(*inputs, graph), case.inputs(graph, heads)


@every_way
def test_gradients_agree_with_differences(name, kind):
    function, inputs = of_one_graph(name, kind)
    # Along drawn directions: all entries take ten times as long.
    assert gradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_agree_with_differences(name):
    function, inputs = of_one_graph(name, "block", heads=1)
    assert gradgradcheck(function, inputs, fast_mode=True)


@every_way
def test_reference_forms_have_the_same_values_and_gradients(name, kind, monkeypatch):
    function, inputs = of_one_graph(name, kind)
    found = []
    for is_traced in (False, True):
        monkeypatch.setattr(rules, "is_traced", lambda is_traced=is_traced: is_traced)
        with native.without_kernels():
            out = function(*inputs)
        found.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    assert distance(*found) <= 1e-12
