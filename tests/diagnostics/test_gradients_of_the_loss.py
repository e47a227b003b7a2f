"""A state's gradient is that of the loss that is minimised, whatever model and loop."""

import copy
import pickle
import re
import warnings

import lightning as L
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_geometric.nn import GCNConv

import gnn_depth
from gnn_depth.diagnostics import LayerMeasures
from tests.diagnostics.conftest import is_hooked
from tools.attack.numbers import layers
from tools.attack.numbers.models import (
    KINDS,
    LOOPS,
    NODES,
    WIDTH,
    Data,
    Drawn,
    accumulated,
    evaluated_again,
    exhausted,
    is_possible,
    one_pass,
    two_losses,
)

MEASURES = ["representation_norm", "gradient_norm_hidden", "gradient_similarity"]


@pytest.mark.parametrize("kind", KINDS)
def test_measures_of_every_model_in_every_loop_are_those_of_autograd(kind):
    # Every loop of the plain model, and every third of the others; make attack has all.
    loops = LOOPS if kind == "separate" else LOOPS[KINDS.index(kind) % 3 :: 3]
    for loop in loops:
        if is_possible(kind, loop):
            assert layers.watched(Drawn(kind, 0), loop, Data(0)) == [], loop.__name__


@pytest.mark.parametrize("loop", [one_pass, two_losses, accumulated, evaluated_again])
def test_every_call_of_a_module_under_two_names_is_a_layer_in_the_order_of_the_calls(loop):
    model, data = Drawn("aliased", 1), Data(1)
    columns = layers.autograd(model, loop, data, by_call=True)
    expected = layers.expected_values(columns, data.edges.numpy())
    with gnn_depth.watch(model, None, MEASURES) as watched:
        exhausted(loop, model, data)
        watched.step()
    assert len(watched.layers) == len(model.order)
    assert list(layers.different(watched.frame(), {m: expected[m] for m in MEASURES})) == []


class InsideModule(L.LightningModule):
    """Calls its model, and is not called itself."""

    def __init__(self, model, data, looks):
        super().__init__()
        self.model, self.data, self.looks = model, data, looks

    def train_dataloader(self):
        return torch.utils.data.DataLoader([0])

    def training_step(self, batch, batch_idx):
        if self.looks:
            with torch.no_grad():
                self.model(self.data.x[1], self.data.edges)
        return self.data.loss(self.model)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def test_a_look_at_the_model_without_autograd_in_a_lightning_step_is_not_measured(make_trainer):
    frames = []
    for looks in (False, True):
        measures = LayerMeasures(MEASURES, "model.convs.*")
        module = InsideModule(Drawn("separate", 0).float(), Data(0), looks)
        module.data.x = module.data.x.float()
        make_trainer([measures], max_epochs=1).fit(module)
        frames.append(measures.frame())
    assert frames[0].value.tolist() == frames[1].value.tolist()


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


@pytest.mark.parametrize("frozen", ["enter", "detached"])
def test_a_state_that_needs_no_gradient_is_empty_with_a_note(frozen):
    model, data = Drawn("separate", 0), Data(0)
    if frozen == "enter":
        model.enter.requires_grad_(False)
    else:
        model.enter.register_forward_hook(lambda module, args, out: out.detach())
    with gnn_depth.watch(model, "convs.*") as watched, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.loss(model).backward()
        watched.step()
    frame = watched.frame()
    gradients = frame[frame.measure == "gradient_norm_hidden"].value
    assert gradients.isna().tolist() == [True] + [False] * (len(gradients) - 1)
    assert any("takes no part in autograd" in note and "convs.0" in note for note in watched.notes)


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
        ({"every": 1.5}, "every must be a positive whole number, not 1.5."),
        ({"every": 0}, "every must be a positive whole number, not 0."),
        ({"measures": "gradient_similarity"}, "not 'gradient_similarity'"),
        ({"layers": [3]}, "layers must be names, not 3."),
        ({"measures": 3}, "list of names such as ['effective_rank'], not 3."),
        ({"edge_index": torch.rand(2, 3)}, "not torch.float32 of shape (2, 3)"),
        ({"edge_index": "edges"}, "edge_index must be a graph, integers"),
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
