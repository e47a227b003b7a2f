"""What is common to the callbacks of every layer's gradients and states. Their values are compared
in test_watch.py."""

import copy

import lightning as L
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.optim import Adam

import gnn_depth
from gnn_depth.diagnostics import (
    GradientNorms,
    GradientSimilarity,
    LayerMeasures,
    RepresentationSimilarity,
)
from gnn_depth.diagnostics.hooks import uncompiled
from gnn_depth.training import NodeClassifier
from tests.diagnostics.conftest import TinyDouble, chain, is_hooked, loader, rows, values
from tests.diagnostics.test_watch import by_hand
from tools.attack.numbers.layers import different, expected_values


@pytest.mark.parametrize(
    "optimizer", [lambda p: Adam(p, lr=0.1, fused=True), lambda p: Adam(p, lr=0.1)]
)
def test_the_scale_of_mixed_precision_is_taken_out(measure, optimizer):
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu", init_scale=2.0**9))
    x, module = rows(dtype=torch.float32), chain(optimizer=optimizer).float()
    _, *half = values(measure(module, x, plugins=plugin, max_epochs=2))
    for found, expected in zip(half, values(measure(x=x.double()))[1:]):
        assert found[0] == pytest.approx(expected[0], rel=1e-2)
        assert (found[1] < 10 * expected.max()).all()


def test_a_step_without_a_loss_is_no_measurement(measure):
    module = chain()
    step = module.training_step
    module.training_step = lambda batch, batch_idx: (
        None if batch_idx == 0 else step(batch, batch_idx)
    )
    with pytest.warns(UserWarning, match="returned `None`"):
        callback = measure(module, batch_size=10)
    assert values(callback)[0].tolist() == [1]


@pytest.mark.parametrize(
    "options",
    [
        {"layer": "gcn"},
        {"layer": "gat", "share_layers": True},
        {"layer": "gat", "norm": "layer", "norm_after_skip": True, "activation": "tanh"},
        {"layer": "gat", "skip": "none"},
    ],
)
def test_our_own_states_are_those_before_dropout(make_trainer, options):
    parts = {"skip": "residual", "num_layers": 3, "hidden_channels": 5, "dropout": 0.5} | options
    torch.manual_seed(0)
    model, data = NodeClassifier(4, 2, **parts).double(), TinyDouble()

    def loss(model):
        torch.manual_seed(5)
        mask = data.batch.train_mask
        return F.cross_entropy(model(data.batch)[mask], data.batch.y[mask])

    expected = expected_values(by_hand(model, "stack.blocks.*", loss), data.batch.graph.edge_index)
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callbacks = [RepresentationSimilarity(), GradientSimilarity(), GradientNorms()]
    make_trainer(callbacks, max_epochs=1).fit(model, datamodule=data)
    frame = pd.concat([callback.frame() for callback in callbacks])
    names = set(frame.measure) - {"gradient_norm_parameters"}  # of a layer without its block
    assert list(different(frame, {name: expected[name] for name in names})) == []


def test_the_states_of_a_reversible_stack_are_measured_whole(make_trainer):
    parts = {
        "layer": "gat",
        "skip": "residual",
        "num_layers": 5,
        "hidden_channels": 6,
        "dropout": 0.5,
    }
    model, data, expected = NodeClassifier(4, 2, **parts, reversible=2).double(), TinyDouble(), []
    for block in model.stack.blocks:
        offset = torch.zeros(20, 6, dtype=torch.float64, requires_grad=True)
        handle = block.register_forward_pre_hook(
            lambda module, args, offset=offset: (args[0] + offset, *args[1:])
        )
        torch.manual_seed(5)
        scores = model(data.batch)[data.batch.train_mask]
        handle.remove()
        loss = F.cross_entropy(scores, data.batch.y[data.batch.train_mask])
        expected.append(float(torch.autograd.grad(loss, offset)[0].norm()))
    step = model.training_step
    model.training_step = lambda batch, batch_idx: torch.manual_seed(5) and step(batch, batch_idx)
    callback = GradientNorms()
    make_trainer([callback], max_epochs=1).fit(model, datamodule=data)
    assert values(callback)[1][0] == pytest.approx(expected, rel=1e-10)


class Adversarial(L.LightningModule):
    """A generator, and a discriminator that is trained first; each has an optimizer."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Linear(3, 3)
        self.discriminator = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def judged(self, x, real):
        return F.softplus(self.discriminator(x) * (1 - 2 * real)).mean()

    def loss(self, x):
        return self.judged(x.clone().requires_grad_(), 1) + self.judged(self.generator(x), 0)

    def training_step(self, batch, batch_idx):
        of_discriminator, of_generator = self.optimizers()
        self.manual_backward(self.loss(*batch))
        of_discriminator.step()
        of_discriminator.zero_grad()
        of_generator.zero_grad()
        self.manual_backward(self.judged(self.generator(*batch), 1))
        of_generator.step()

    def configure_optimizers(self):
        return [
            torch.optim.Adam(part.parameters()) for part in (self.discriminator, self.generator)
        ]


def test_of_two_networks_that_are_trained_in_turn_one_is_measured_in_its_steps(make_trainer):
    measures = ["representation_norm", "gradient_similarity", "gradient_norm_parameters"]
    module, x = Adversarial().double(), rows()
    alone, twin = copy.deepcopy(module), copy.deepcopy(module)
    callback = LayerMeasures(measures, "discriminator.*")
    with gnn_depth.watch(twin, "discriminator.*", measures) as watched:
        twin.loss(x).backward()
        watched.step()
    for one, callbacks in ((module, [callback]), (alone, [])):
        make_trainer(callbacks, max_epochs=2).fit(one, loader(x, 20))
    found = callback.frame().query("step == 0").value.tolist()
    assert found == pytest.approx(watched.frame().value.tolist(), nan_ok=True)
    for ours, theirs in zip(module.parameters(), alone.parameters()):
        assert torch.equal(ours, theirs)
    assert not is_hooked(module)
    assert uncompiled._count == 0
