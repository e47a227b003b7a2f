"""Recorded steps. On a CPU a recorder that takes the step again stands in for CUDA graphs."""

import logging
import random
import weakref
from typing import ClassVar

import lightning as L
import pytest
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth.data import Planetoid  # noqa: F401  (registers data sets)
from gnn_depth.diagnostics import GradientNorms
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.training import Diverged, NodeClassifier
from gnn_depth.training.recorded import GRAPHS, ORDINARY
from tests.training.conftest import Collect, Several

EPOCHS = 9


class StandIn:
    """Takes a step to record it, and undoes it; a replay takes it again, whatever was changed."""

    made: ClassVar[list] = []

    def __init__(self):
        self.made.append(self)
        self.replays = 0

    def capture(self, step):
        self.step, module = step, self.module
        optimizer = module.trainer.optimizers[0]
        self.recording, self.found_inf = (
            module.recorded.capturing,
            getattr(optimizer, "found_inf", None),
        )
        kept = [*module.state_dict().values(), *_tensors(optimizer), module.recorded._flag]
        before, numbers = [value.clone() for value in kept], torch.get_rng_state()
        step()
        torch.set_rng_state(numbers)
        with torch.no_grad():
            for value, old in zip(kept, before, strict=True):
                value.copy_(old)

    def replay(self):
        self.replays += 1
        optimizer, recorded = self.module.trainer.optimizers[0], self.module.recorded
        if self.recording is not None:
            optimizer.found_inf = self.found_inf
        recorded.capturing = self.recording
        self.step()
        recorded.capturing = optimizer.found_inf = None


def _tensors(optimizer):
    for state in optimizer.state.values():
        yield from (value for value in state.values() if isinstance(value, torch.Tensor))


@pytest.fixture
def train(tiny, make_trainer, monkeypatch):
    """Train a model for some epochs; returns its metrics and sums of weights, and the recordings."""

    def run(record, callbacks=(), epochs=EPOCHS, kind=NodeClassifier, validate_every=1, **options):
        monkeypatch.setattr(StandIn, "made", [])
        monkeypatch.setitem(GRAPHS, "cpu", StandIn)
        L.seed_everything(3, verbose=False)
        given = {"hidden_channels": 8, "dropout": 0.5, "record": record} | options
        StandIn.module = model = kind(4, 2, **given)
        seen = Collect()
        callbacks = [seen, *callbacks]
        trainer = make_trainer(epochs, callbacks=callbacks, check_val_every_n_epoch=validate_every)
        trainer.fit(model, datamodule=tiny)
        sums = [
            {name: w.double().sum().item() for name, w in each.items()} for each in seen.weights
        ]
        return (seen.metrics, sums), StandIn.made

    return run


SETTINGS = {
    "adam": {},
    "sgd": {"optimizer": {"class_path": "SGD", "init_args": {"lr": 0.1, "momentum": 0.9}}},
    "schedule": {"scheduler": {"class_path": "CosineAnnealingLR", "init_args": {"T_max": EPOCHS}}},
    "batch norm": {"norm": "batch"},
    "decay apart": {"layer_weight_decay": 0.1},
}


@pytest.mark.parametrize("label", SETTINGS)
def test_replayed_steps_are_those_of_an_ordinary_training(train, label):
    ordinary, none = train("off", **SETTINGS[label])
    replayed, made = train("on", **SETTINGS[label])
    assert not none
    assert [each.replays for each in made] == [EPOCHS - ORDINARY] * 2  # training and evaluation
    assert replayed == ordinary


def test_a_step_that_a_callback_measures_is_an_ordinary_one(train, tmp_path):
    found = []
    for record in ("off", "on"):
        callback = GradientNorms(every_n_epochs=4)
        rows, made = train(record, [callback])
        found.append((rows, callback.frame()))
    # Of the epochs 0 to 8 the callback measures 0, 4 and 8.
    assert [each.replays for each in made] == [4, 6]
    assert found[0][0] == found[1][0]
    assert found[0][1].equals(found[1][1])


class Break(L.Callback):
    """Make the second layer overflow after an epoch."""

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == ORDINARY + 2:
            with torch.no_grad():
                pl_module.stack.blocks[1].layer.lin.weight.fill_(3e38)


@pytest.mark.parametrize("every", [1, 4, 100])
def test_a_training_that_diverges_names_the_step_and_the_layer_as_an_ordinary_one(train, every):
    messages = []
    for record in ("off", "on"):
        with pytest.raises(Diverged) as error:
            train(record, [Break()], num_layers=3, epochs=70, validate_every=every)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert f"at step {ORDINARY + 3}" in messages[0]
    assert "blocks.1.layer" in messages[0]


class Draws(FeatureNorm):
    def forward(self, x, graph):
        return x * random.choice([0.5, 1.0])


class Counts(FeatureNorm):
    def __init__(self, width):
        super().__init__(width)
        self.calls = 0

    def forward(self, x, graph):
        self.calls += 1
        return x / self.calls


class Averages(FeatureNorm):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x, graph):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean()
        return x - self.mean


class OwnStep(NodeClassifier):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx)


class Reads(L.Callback):
    def on_after_backward(self, trainer, pl_module):
        self.norm = sum(p.grad.norm() for p in pl_module.parameters())


REFUSED = {
    "draws random numbers on the CPU": {"norm": [Draws]},
    "replaces calls of blocks.0.norm": {"norm": [Counts]},
    "replaces mean of blocks.0.norm": {"norm": [Averages]},
    "OwnStep has its own training_step": {"kind": OwnStep},
    "only the fused forms": {"optimizer": {"class_path": "RMSprop"}},
    "Reads has on_after_backward": {"callbacks": [Reads()]},
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_recorded_trains_as_before_and_says_why(train, caplog, words):
    ordinary, _ = train("off", **REFUSED[words])
    with caplog.at_level(logging.WARNING):
        found, _ = train("auto", **REFUSED[words])
    assert found == ordinary
    assert [words in each.message for each in caplog.records].count(True) == 1
    with pytest.raises(MisconfigurationException, match=words):
        train("on", **REFUSED[words])


class Fails(FeatureNorm):
    """Fails in a recording, of which no tensor may exist in a later step."""

    failed: ClassVar[list] = []

    def forward(self, x, graph):
        assert not any(each() is not None for each in self.failed)
        if StandIn.module.recorded.capturing is not None:
            self.failed.append(weakref.ref(x))
            raise RuntimeError("a value is read")
        return x / 2


def test_nothing_of_a_failed_recording_is_left(train, caplog, monkeypatch):
    monkeypatch.setattr(Fails, "failed", [])
    train("auto", norm=[Fails])
    assert "blocks.0.norms.0 (Fails), test_recorded.py" in caplog.text
    assert len(Fails.failed) == 1


def test_mini_batches_are_not_recorded(train, tiny, monkeypatch):
    monkeypatch.setattr(type(tiny), "train_dataloader", lambda self: Several(self, 2))
    with pytest.raises(MisconfigurationException, match="mini-batches"):
        train("on")


class Anneal(L.Callback):
    """Lower the dropout once."""

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == ORDINARY + 1:
            pl_module.stack.dropout = 0.1


def test_a_model_that_changes_is_recorded_again(train):
    ordinary, _ = train("off", [Anneal()])
    found, made = train("on", [Anneal()])
    assert found == ordinary
    assert [each.replays for each in made] == [2, 2, EPOCHS - ORDINARY - 2, EPOCHS - ORDINARY - 2]


def test_hooks_of_others_are_called_in_every_step(train):
    class Hook(L.Callback):
        calls = 0

        def on_fit_start(self, trainer, pl_module):
            pl_module.stack.blocks[0].register_forward_hook(self.look)

        def look(self, *_):
            self.calls += 1

    hook = Hook()
    _, made = train("on", [hook])
    assert not made
    assert hook.calls == 2 * EPOCHS


def test_a_recording_needs_a_gpu(tiny, make_trainer):
    model = NodeClassifier(4, 2, hidden_channels=8, record="on")
    with pytest.raises(MisconfigurationException, match="record on: the device is a cpu"):
        make_trainer(2).fit(model, datamodule=tiny)
