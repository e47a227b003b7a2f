"""A state's gradient is that of the loss that is minimised, whatever model and loop."""

import copy
import pickle

import pytest
import torch
from torch import nn

import gnn_depth
from tests.diagnostics.conftest import is_hooked
from tools.attack.numbers import layers
from tools.attack.numbers.models import KINDS, LOOPS, NODES, WIDTH, Data, Drawn, is_possible


@pytest.mark.parametrize("kind", KINDS)
def test_measures_of_every_model_in_every_loop_are_those_of_autograd(kind):
    for loop in LOOPS:
        if is_possible(kind, loop):
            assert layers.watched(Drawn(kind, 0), loop, Data(0)) == [], loop.__name__


@pytest.mark.parametrize("kind", KINDS)
def test_callbacks_of_every_model_measure_what_autograd_does(kind):
    for loop in LOOPS:
        if is_possible(kind, loop) and loop not in layers.NOT_IN_LIGHTNING:
            assert list(layers.called_back(Drawn(kind, 0), loop, Data(0))) == [], loop.__name__


def test_without_a_backward_pass_of_the_loss_gradients_are_empty_and_a_note_says_why():
    model, data = Drawn("separate", 0), Data(0)
    measures = ["gradient_norm_hidden", "representation_norm"]
    with gnn_depth.watch(model, measures=measures) as watched:
        torch.autograd.grad(data.loss(model), list(model.parameters()))
        with pytest.warns(UserWarning, match="gradient"):
            watched.step()
    assert any("torch.autograd.grad does not count" in note for note in watched.notes)
    values = watched.frame().set_index("measure").value
    assert values["gradient_norm_hidden"].isna().all()
    assert values["representation_norm"].notna().all()


@pytest.mark.parametrize("frozen", ["enter", "detached"])
def test_a_state_that_needs_no_gradient_is_empty_with_a_note(frozen):
    model, data = Drawn("separate", 0), Data(0)
    if frozen == "enter":
        model.enter.requires_grad_(False)
    else:
        model.enter.register_forward_hook(lambda module, args, out: out.detach())
    with gnn_depth.watch(model, "convs.*", ["gradient_norm_hidden"]) as watched:
        data.loss(model).backward()
        with pytest.warns(UserWarning, match="takes no part in autograd.*convs.0"):
            watched.step()
    missing = watched.frame().value.isna().tolist()
    assert missing == [True] + [False] * (len(missing) - 1)


def test_a_state_that_is_passed_again_without_a_kept_graph_is_nan_with_a_note():
    model = nn.ModuleDict({"first": nn.Linear(WIDTH, 2), "second": nn.Linear(WIDTH, 2)})
    start = torch.randn(NODES, WIDTH, requires_grad=True)
    measures = ["gradient_norm_hidden"]
    with gnn_depth.watch(model, ["first", "second"], measures) as watched:
        x = start + 1  # saves nothing for the backward pass
        one, other = model["first"](x), model["second"](x)
        one.sum().backward()
        other.sum().backward()
        with pytest.warns(UserWarning, match="retain_graph"):
            watched.step()
    assert watched.frame().value.isna().all()


def test_transforms_of_a_watched_model_give_what_they_give_unwatched():
    model, data = Drawn("separate", 0), Data(0)
    weights = dict(model.named_parameters())

    def loss(weights, x):
        return torch.func.functional_call(model, weights, (x, data.edges)).sum()

    def transformed():
        slopes = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, data.x)
        return sum(slope.sum() for slope in slopes.values())

    expected = transformed()
    with gnn_depth.watch(model) as watched:
        assert torch.equal(transformed(), expected)
        with pytest.warns(UserWarning, match="torch.func"):
            watched.step()
        data.loss(model).backward()
        watched.step()
    is_missing = watched.frame().groupby("step").value.apply(lambda value: value.isna().mean())
    assert is_missing.tolist() == [1, 0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_made_inside_the_block_are_not_measured(copied):
    model, data = Drawn("separate", 0), Data(0)
    with gnn_depth.watch(model) as watched:
        for step in range(2):
            data.loss(model).backward()
            model.states = []
            if step:
                data.loss(copied(model)).backward()
            watched.step()
            model.zero_grad()
    first, second = (values for _, values in watched.frame().groupby("step").value)
    assert second.tolist() == pytest.approx(first.tolist(), rel=1e-12)
    assert not is_hooked(model)


def test_a_graph_that_is_kept_beyond_its_step_adds_nothing_to_the_next():
    model, data = Drawn("separate", 0), Data(0)
    twin, norms = copy.deepcopy(model), []
    with gnn_depth.watch(model, "convs.*", ["gradient_norm_hidden"]) as watched:
        kept = data.loss(model)
        kept.backward(retain_graph=True)
        watched.step()
        later = data.loss(model, 1)
        (kept + later).backward()
        watched.step()
    for batch in range(2):
        loss = data.loss(twin, batch)
        gradients = torch.autograd.grad(loss, twin.states)
        norms += [float(gradient.norm()) for gradient in gradients]
    assert watched.frame().value.tolist() == pytest.approx(norms, rel=1e-11)
