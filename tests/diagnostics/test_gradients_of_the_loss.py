"""A state's gradient is that of the loss that is minimised, whatever model and loop.

Models are drawn: layers of their own, shared, under two names, called with keywords or a tuple, or
checkpointed. The same draws give the states of a twin, whose gradients ``torch.autograd.grad``
computes in float64.
"""

import copy
import pickle
import random
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv

import gnn_depth
from tests.diagnostics.conftest import is_hooked

NODES, WIDTH = 9, 3
MEASURES = ["representation_norm", "gradient_norm_hidden", "gradient_similarity"]


class Aliased(nn.Module):
    """Another name for a layer."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


class OfTuple(nn.Module):
    """A layer that is called with a tuple of features and edges."""

    def __init__(self):
        super().__init__()
        self.conv = GCNConv(WIDTH, WIDTH)

    def forward(self, pair):
        return self.conv(*pair)


class Drawn(nn.Module):
    """A model of one of the kinds; ``states`` has what entered its layers in the last pass."""

    def __init__(self, kind, seed):
        super().__init__()
        draws = random.Random(seed)
        torch.manual_seed(seed)
        self.kind, self.enter = kind, nn.Linear(WIDTH, WIDTH)
        kinds = {"tuple": OfTuple}
        count = 1 if kind == "shared" else draws.randint(2, 4)
        make = kinds.get(kind, lambda: GCNConv(WIDTH, WIDTH))
        self.convs = nn.ModuleList(make() for _ in range(count))
        if kind == "aliased":
            self.other = Aliased(self.convs[0])
        rounds = draws.randint(2, 3) if kind in ("shared", "aliased") else 1
        self.order = [place for _ in range(rounds) for place in range(count)]
        self.skips = [draws.random() < 0.5 for _ in self.order]
        self.leave = nn.Linear(WIDTH, 2)
        self.states = []
        self.double()

    def forward(self, x, edge_index):
        self.states = []
        x = self.enter(x)
        for place, skip in zip(self.order, self.skips):
            self.states.append(x)
            out = torch.tanh(self.call(place, x, edge_index))
            x = x + out if skip else out
        return self.leave(x)

    def call(self, place, x, edge_index):
        conv = self.convs[place]
        if self.kind == "keyword":
            return conv(edge_index=edge_index, x=x)
        if self.kind == "tuple":
            return conv((x, edge_index))
        if self.kind == "aliased" and place == 0:
            return self.other(x, edge_index)
        if self.kind in ("checkpoint", "reentrant"):
            return checkpoint(conv, x, edge_index, use_reentrant=self.kind == "reentrant")
        return conv(x, edge_index)


KINDS = ("separate", "shared", "aliased", "keyword", "tuple", "checkpoint", "reentrant")


class Data:
    """Batches of one graph each, and targets."""

    def __init__(self, seed):
        draws = torch.Generator().manual_seed(seed)
        self.edges = torch.randint(NODES, (2, 20), generator=draws)
        self.x = torch.randn(2, NODES, WIDTH, generator=draws, dtype=torch.float64)
        self.y = torch.randint(2, (2, NODES), generator=draws)

    def loss(self, model, batch=0):
        return nn.functional.cross_entropy(model(self.x[batch], self.edges), self.y[batch])


def one_pass(model, data):
    """The plain loop. Each way yields what is differentiated, and the states of every batch."""
    loss = data.loss(model)
    yield model.states, loss
    loss.backward()


def two_losses(model, data):
    """Two backward passes through the same states."""
    out = model(data.x[0], data.edges)
    first, second = nn.functional.cross_entropy(out, data.y[0]), out.square().mean()
    yield model.states, first + second
    first.backward(retain_graph=True)
    second.backward()


def accumulated(model, data):
    """A batch after the other."""
    for batch in range(2):
        loss = data.loss(model, batch)
        yield model.states, loss
        loss.backward()


def one_backward_of_two_batches(model, data):
    """Two forward passes, and one backward pass of the sum of their losses."""
    losses = []
    for batch in range(2):
        losses.append(data.loss(model, batch))
        yield model.states, losses[-1]
    sum(losses).backward()


def penalty(model, data):
    """A gradient penalty: an additional backward pass that is not the loss's."""
    x = data.x[0].clone().requires_grad_()
    out = model(x, data.edges)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    loss = nn.functional.cross_entropy(out, data.y[0]) + 0.1 * slope.square().sum()
    yield model.states, loss
    loss.backward()


def perturbed(model, data):
    """Adversarial inputs, by a pass before that is not the loss's."""
    x = data.x[0].clone().requires_grad_()
    loss = nn.functional.cross_entropy(model(x, data.edges), data.y[0])
    (slope,) = torch.autograd.grad(loss, x)
    loss = nn.functional.cross_entropy(model(data.x[0] + 0.1 * slope.sign(), data.edges), data.y[0])
    yield model.states, loss
    loss.backward()


def evaluated_again(model, data):
    """A loss whose gradients are reset, as by the closure of an optimizer, before the last one."""
    data.loss(model, 1).backward()
    model.zero_grad()
    yield from one_pass(model, data)


def evaluated_again_in_place(model, data):
    """The same, with gradients set to zero instead of None, after the forward pass."""
    data.loss(model, 1).backward()
    loss = data.loss(model)
    yield model.states, loss
    model.zero_grad(set_to_none=False)
    loss.backward()


def monitored(model, data):
    """A look at a gradient after the optimizer has reset them, which is no part of the step."""
    yield from one_pass(model, data)
    model.zero_grad()
    torch.autograd.grad(data.loss(model), model.enter.weight)


def without_autograd(model, data):
    """A pass for the accuracy, in training mode."""
    with torch.no_grad():
        model(data.x[1], data.edges)
    yield from one_pass(model, data)


WAYS = (
    one_pass,
    two_losses,
    accumulated,
    one_backward_of_two_batches,
    penalty,
    perturbed,
    evaluated_again,
    evaluated_again_in_place,
    monitored,
    without_autograd,
)


def exhausted(way, model, data):
    for _ in way(model, data):
        pass


def expected_of(way, model, data):
    """Every measure's values, by ``torch.autograd.grad`` of each batch's loss."""
    batches = []
    for states, loss in way(model, data):
        gradients = torch.autograd.grad(loss, states, retain_graph=True)
        batches.append(([x.detach() for x in states], gradients))
    found = []
    for of_layer in range(len(batches[0][0])):
        x = torch.cat([states[of_layer] for states, _ in batches])
        g = torch.cat([gradients[of_layer] for _, gradients in batches])
        found.append([float(x.norm()), float(g.norm()), float((g - g.mean(0)).norm())])
    return np.array(found).T


# Re-entrant checkpoints do not go with torch.autograd.grad, and warn without autograd.
UNSUPPORTED = ("penalty", "perturbed", "monitored", "without_autograd")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_measures_of_every_model_and_loop_are_those_of_autograd(kind, way):
    if kind == "reentrant" and way.__name__ in UNSUPPORTED:
        pytest.skip("PyTorch refuses it")
    for seed in range(3):
        model, data = Drawn(kind, seed), Data(seed)
        twin = copy.deepcopy(model)
        if kind == "reentrant":
            twin.kind = "checkpoint"  # for torch.autograd.grad, which gives the same numbers
        with gnn_depth.watch(model, "convs.*", MEASURES) as watched:
            exhausted(way, model, data)
            watched.step()
        assert watched.notes == []
        expected = expected_of(way, twin, data)
        values = watched.frame().pivot_table(index="measure", columns="layer", values="value")
        assert values.columns.tolist() == list(range(1, expected.shape[1] + 1))
        assert values.loc[MEASURES].to_numpy() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("way", [one_pass, two_losses, accumulated, evaluated_again])
def test_every_call_of_a_module_under_two_names_is_a_layer_in_the_order_of_the_calls(way):
    model, data = Drawn("aliased", 1), Data(1)
    expected = expected_of(way, copy.deepcopy(model), data)
    with gnn_depth.watch(model, None, MEASURES) as watched:
        exhausted(way, model, data)
        watched.step()
    assert len(watched.layers) == len(model.order)
    values = watched.frame().pivot_table(index="measure", columns="layer", values="value")
    assert values.loc[MEASURES].to_numpy() == pytest.approx(expected, rel=1e-11)


def test_without_a_backward_pass_of_the_loss_gradients_are_empty_and_a_note_says_why():
    model, data = Drawn("separate", 0), Data(0)
    with gnn_depth.watch(model) as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.autograd.grad(data.loss(model), list(model.parameters()))
        watched.step()
    values = watched.frame().set_index("measure").value
    assert values["gradient_norm_hidden"].isna().all()
    assert values["representation_norm"].notna().all()
    assert any("torch.autograd.grad does not count" in note for note in watched.notes)


def test_a_state_that_is_passed_again_without_a_kept_graph_is_nan_with_a_note():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.start = nn.Parameter(torch.randn(NODES, WIDTH))
            self.first, self.second = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2)

        def forward(self):
            x = self.start + 1  # saves nothing for the backward pass
            return self.first(x), self.second(x)

    model = Sum()
    measures = ["gradient_norm_hidden"]
    with gnn_depth.watch(model, ["first", "second"], measures) as watched:
        one, other = model()
        one.sum().backward()
        other.sum().backward()
        with pytest.warns(UserWarning, match="retain_graph"):
            watched.step()
    assert watched.frame().value.isna().all()


def test_a_state_in_a_reentrant_checkpoint_has_a_note():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.conv = nn.Linear(WIDTH, WIDTH), GCNConv(WIDTH, WIDTH)
            self.leave = nn.Linear(WIDTH, 2)

        def forward(self, x, edges):
            block = checkpoint(self.block, self.enter(x), edges, use_reentrant=True)
            return self.leave(block)

        def block(self, x, edges):
            return self.conv(torch.tanh(x), edges)

    model, data = Inside().double(), Data(0)
    with gnn_depth.watch(model) as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.loss(model).backward()
        watched.step()
    values = watched.frame().set_index("measure").value
    assert np.isnan(values["gradient_norm_hidden"])
    assert any("use_reentrant=True" in note for note in watched.notes)


@pytest.mark.parametrize("name", ["vmap", "jacrev", "per_sample"])
def test_transforms_of_a_watched_model_give_what_they_give_unwatched(name):
    model, data = Drawn("separate", 0), Data(0)

    def transformed():
        if name == "vmap":
            return torch.func.vmap(lambda x: model(x, data.edges))(data.x).sum()
        if name == "jacrev":
            return torch.func.jacrev(lambda x: model(x, data.edges))(data.x[0]).sum()
        weights = dict(model.named_parameters())

        def loss(weights, x):
            return torch.func.functional_call(model, weights, (x, data.edges)).sum()

        slopes = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, data.x)
        return sum(slope.sum() for slope in slopes.values())

    expected = transformed()
    with gnn_depth.watch(model) as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(transformed(), expected)
        watched.step()
        data.loss(model).backward()
        watched.step()
    frame = watched.frame()
    assert frame[frame.step == 0].value.isna().all()
    assert frame[frame.step == 1].value.notna().all()
    assert any("torch.func" in note for note in watched.notes)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_made_inside_the_block_have_no_hooks_and_the_others_hooks(copied):
    model, data = Drawn("separate", 0), Data(0)
    model.convs[0].register_forward_pre_hook(print_nothing)
    with gnn_depth.watch(model) as watched, gnn_depth.watch(model) as other:
        data.loss(model).backward()
        model.states = []
        twin = copied(model)
        assert list(twin.convs[0]._forward_pre_hooks.values()) == [print_nothing]
        twin.convs[0]._forward_pre_hooks.clear()
        assert not is_hooked(twin)
        data.loss(twin).backward()
        watched.step()
        other.step()
    assert watched.frame().value.notna().all()
    model.convs[0]._forward_pre_hooks.clear()
    assert not is_hooked(model)


def print_nothing(module, args):
    """A hook of somebody else."""


def test_given_edges_are_taken_for_a_layer_that_is_called_with_a_tuple():
    model, data = Drawn("tuple", 0), Data(0)
    energies = []
    for edges in (None, data.edges):
        with gnn_depth.watch(model, "convs.*", ["dirichlet_energy"], edge_index=edges) as watched:
            data.loss(model).backward()
            watched.step()
        assert watched.notes == []
        energies.append(watched.frame().value.to_numpy())
    assert np.isfinite(energies[0]).all()
    assert (energies[0] == energies[1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 1.5}, "every must be a whole number, not 1.5."),
        ({"every": 0}, "every must be at least 1, not 0."),
        ({"measures": "gradient_similarity"}, "use measures=['gradient_similarity']"),
        ({"measures": []}, "measures is empty"),
        ({"layers": []}, "layers is empty"),
        ({"layers": [3]}, "layers must be names, not 3."),
    ],
)
def test_wrong_arguments_of_a_watch_are_refused_in_words(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        gnn_depth.watch(Drawn("separate", 0), **options)


def test_a_watch_that_is_dropped_before_its_end_says_so_and_leaves_no_hooks():
    model = Drawn("separate", 0)
    held = [gnn_depth.watch(model)]
    held[0].__enter__()
    with pytest.warns(UserWarning, match="dropped before its end"):
        held.clear()
    assert not is_hooked(model)


def test_measures_are_known_without_an_import_of_their_own():
    code = "import gnn_depth; print(len(gnn_depth.diagnostics.MEASURES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(gnn_depth.diagnostics.MEASURES)


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
