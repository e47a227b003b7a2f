"""Every skip connection against its formula, and what is particular to each."""

import math

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.skips import Dense, Gated, InitialResidual, LayerScale, NoSkip, Residual, ReZero
from gnn_depth.registry import registered
from tests.nn.skips import loops

SKIPS = {name: cls for name, cls in registered("skip").items() if cls.__module__.startswith("gnn_depth.")}
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


def values_and_gradients(out, inputs, direction):
    gradients = torch.autograd.grad(out, inputs, direction, allow_unused=True, materialize_grads=True)
    return [out, *gradients]


@every_skip
@pytest.mark.parametrize("kind", WIDTHS)
def test_a_skip_and_its_gradients_are_those_of_a_loop_over_nodes(name, kind):
    skip, (update, *states) = make(name, WIDTHS[kind]), inputs(WIDTHS[kind])
    expected = loops.of_all_nodes(getattr(loops, name), skip, update, states)
    assert expected.shape == (4, skip.width)
    of, direction = [update, *states, *skip.parameters()], torch.randn_like(expected)
    got = values_and_gradients(skip(update, states, GRAPH), of, direction)
    for ours, loop in zip(got, values_and_gradients(expected, of, direction), strict=True):
        torch.testing.assert_close(ours, loop, rtol=1e-10, atol=1e-10)


@every_skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [0.0, 1e-30, 1e18])
@pytest.mark.parametrize("nodes", [0, 1, 4])
def test_features_of_zero_tiny_and_large_ones_and_single_nodes_stay_finite(name, dtype, size, nodes):
    skip = make(name, [3, 2], dtype)
    update, *states = inputs([3, 2], nodes, dtype, lambda *shape, **options: torch.full(shape, size, **options))
    out = skip(update, states, GRAPH)
    assert out.dtype == dtype
    for value in values_and_gradients(out, [update, *states, *skip.parameters()], torch.ones_like(out)):
        assert value.isfinite().all()


@every_skip
def test_a_row_depends_on_that_row_alone(name):
    skip, (update, *states) = make(name, [3, 2]), inputs([3, 2])
    part = skip(update[:2], [state[:2] for state in states], GRAPH)
    torch.testing.assert_close(part, skip(update, states, GRAPH)[:2], rtol=1e-14, atol=1e-14)


@every_skip
def test_a_skip_whose_width_stays_needs_no_map(name):
    assert not list(getattr(SKIPS[name]([3, 3], 3), "project", torch.nn.Identity()).parameters())


def test_no_skip_returns_the_update():
    update = torch.randn(3, 2)
    assert NoSkip([4], 2)(update, [torch.randn(3, 4)], GRAPH) is update


def test_residual_adds_the_latest_state():
    update, first, latest = torch.randn(3, 2), torch.randn(3, 5), torch.randn(3, 2)
    assert torch.equal(Residual([5, 2], 2)(update, [first, latest], GRAPH), latest + update)


def test_residual_maps_a_state_of_another_width():
    skip, state = Residual([5], 2), torch.randn(3, 5)
    update = torch.zeros(3, 2)
    assert torch.equal(skip(update, [state], GRAPH), skip.project(state))
    assert skip.project.bias is None


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
def test_an_initial_residual_is_a_mean_weighted_by_alpha(alpha):
    update, first, latest = torch.randn(3, 2), torch.randn(3, 2), torch.randn(3, 2)
    out = InitialResidual([2, 2], 2, alpha)(update, [first, latest], GRAPH)
    torch.testing.assert_close(out, torch.lerp(update, first, alpha))


@pytest.mark.parametrize("alpha", [-0.1, 1.0, 1.5, math.nan])
def test_a_share_of_the_first_state_that_leaves_nothing_of_the_layers_is_refused(alpha):
    with pytest.raises(ValueError, match=rf"alpha of skip 'initial_residual' .* in \[0, 1\), not {alpha}"):
        InitialResidual([2], 2, alpha)


@pytest.mark.parametrize(
    ("cls", "option", "name"),
    [(Gated, "bias", "gated"), (ReZero, "initial", "rezero"), (LayerScale, "initial", "layer_scale")],
)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_a_skip_begins_with_is_a_finite_number(cls, option, name, value):
    with pytest.raises(ValueError, match=f"{option} of skip '{name}' must be a finite number, not {value}"):
        cls([2], 2, **{option: value})


@pytest.mark.parametrize(("bias", "chosen"), [(50.0, 0), (-50.0, 1)])
def test_the_bias_opens_or_closes_a_gate(bias, chosen):
    update, state = torch.randn(3, 2), torch.randn(3, 2)
    torch.testing.assert_close(Gated([2], 2, bias)(update, [state], GRAPH), (update, state)[chosen])


def test_a_gate_stays_between_the_update_and_the_input():
    update, state = inputs([3], nodes=50)
    out = make("gated", [3])(update, [state], GRAPH)
    assert (out >= torch.minimum(update, state) - 1e-12).all()
    assert (out <= torch.maximum(update, state) + 1e-12).all()


def test_dense_connections_widen_the_state_by_the_update():
    assert Dense([4], 3).width == 7
    assert Dense([4, 7], 3).width == 10


def test_rezero_begins_as_the_input_and_with_a_gradient_of_its_number_only():
    update, state = inputs([3])
    skip = ReZero([3], 3).double()
    out = skip(update, [state], GRAPH)
    assert torch.equal(out, state)
    to_update, to_number = torch.autograd.grad(out, [update, skip.scale], torch.ones_like(out))
    assert (to_update == 0).all()
    torch.testing.assert_close(to_number, update.sum()[None])


@pytest.mark.parametrize("initial", [0.0, 0.1])
def test_what_scales_begin_as_is_an_option(initial):
    assert ReZero([2], 2, initial).scale.tolist() == pytest.approx([initial])
    assert LayerScale([2], 2, initial).scale.tolist() == pytest.approx([initial] * 2)
