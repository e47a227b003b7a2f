"""Derivatives of the fast functions: numerical ones, second ones, and those of forward mode."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.functional import jacobian

from tests.nn.functional.cases import CASES, distance
from tests.nn.functional.graphs import GRAPHS

every_case = pytest.mark.parametrize("name", CASES)
# One tensor at both ends takes another way on graphs whose edges all run both ways.
every_way = pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in CASES for kind in ("symmetric", "block")]
    + [("edge_additive_shared", "directed")],
)


def of_one_graph(name, kind, heads=2):
    case, graph = CASES[name], GRAPHS[kind]()
    return lambda *inputs: case.ours(*inputs, graph), case.inputs(graph, heads)


@every_way
def test_both_modes_agree_with_differences(name, kind):
    function, inputs = of_one_graph(name, kind)
    # Along drawn directions: all entries take ten times as long.
    assert gradcheck(function, inputs, check_forward_ad=True, fast_mode=True)


@every_case
def test_second_derivatives_agree_with_differences(name):
    function, inputs = of_one_graph(
        name, "symmetric" if name == "edge_additive_shared" else "block", heads=1
    )
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True, fast_mode=True)


@every_way
def test_jvp_along_one_input_leaves_the_others_still(name, kind):
    function, inputs = of_one_graph(name, kind)
    for position, tangent in enumerate(map(torch.randn_like, inputs)):
        others = [value.detach() for value in inputs]

        def along(value, position=position, others=others):
            return function(*others[:position], value, *others[position + 1 :])

        _, moved = torch.func.jvp(along, (others[position],), (tangent,))
        expected = torch.tensordot(jacobian(along, others[position]), tangent, tangent.dim())
        assert distance([moved], [expected]) <= 1e-12


@every_case
def test_forward_mode_over_reverse_mode_is_the_product_with_the_hessian(name):
    function, inputs = of_one_graph(name, "symmetric")
    inputs = tuple(given.detach() for given in inputs)
    tangents = tuple(torch.randn_like(value) for value in inputs)

    def energy(*given):
        return function(*given).pow(3).sum()

    places = tuple(range(len(inputs)))
    _, forward = torch.func.jvp(torch.func.grad(energy, places), inputs, tangents)
    _, reverse = torch.autograd.functional.vhp(energy, inputs, tangents)
    assert distance(forward, reverse) <= 1e-12


def test_a_constant_under_a_dual_level_stays_a_constant():
    function, (weights, x) = of_one_graph("aggregate", "directed")
    with forward_ad.dual_level():
        out = function(weights, x)
        assert forward_ad.unpack_dual(out).tangent is None


@every_case
def test_no_signature_is_inspected_outside_transforms(name, monkeypatch):
    function, inputs = of_one_graph(name, "block")
    monkeypatch.setattr(
        "inspect.signature", lambda *_: pytest.fail("this takes as long as a small operation")
    )
    function(*inputs).sum().backward()
    assert all(given.grad is not None for given in inputs)
