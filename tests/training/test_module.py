import copy
import os
import shlex
import signal
import sys
import threading
import warnings
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.cli import LightningCLI, ReduceLROnPlateau
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from gnn_depth.data import SyntheticCitation
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LipschitzNorm, PairNorm
from gnn_depth.nn.skips import Residual
from gnn_depth.training import Diverged, NodeClassifier
from gnn_depth.training.export import export_model
from gnn_depth.training.prediction import load_model, predictions_of
from gnn_depth.training.recorder import RunRecorder
from tests.training.conftest import Collect


def test_training_is_the_plain_loop_over_the_same_stack(tiny, make_trainer, model):
    twin = NodeClassifier(4, 2, hidden_channels=8)
    twin.load_state_dict(model.state_dict())
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.005, weight_decay=5e-4, fused=True)
    losses, batch = [], tiny.batch
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(
            twin.stack(batch.x, batch.graph)[batch.train_mask], batch.y[batch.train_mask]
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seen = Collect()
    make_trainer(5, callbacks=[seen]).fit(model, datamodule=tiny)
    assert [epoch["train/loss"] for epoch in seen.metrics] == losses
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_metrics_are_those_of_the_masks_in_evaluation_mode(tiny, make_trainer):
    model = NodeClassifier(4, 2, hidden_channels=8, dropout=0.5)
    seen, batch = Collect(), tiny.batch
    make_trainer(1, callbacks=[seen]).fit(model, datamodule=tiny)
    model.eval()
    scores = model(batch).detach()
    for stage, mask in (("val", batch.val_mask), ("test", batch.test_mask)):
        right = (scores.argmax(-1) == batch.y)[mask].float().mean().item()
        assert seen.metrics[-1][f"{stage}/acc"] == pytest.approx(right)
    expected = F.cross_entropy(scores[batch.val_mask], batch.y[batch.val_mask]).item()
    assert seen.metrics[-1]["val/loss"] == pytest.approx(expected)


def test_one_forward_pass_serves_validation_and_test_metrics(tiny, make_trainer, model):
    passes = []
    model.stack.register_forward_hook(lambda module, _, output: passes.append(module.training))
    make_trainer(3).fit(model, datamodule=tiny)
    assert passes == [True, False] * 3


def test_the_first_bad_layer_is_named_by_its_output(tiny, make_trainer):
    model = NodeClassifier(4, 2, layer=GAT, num_layers=4, hidden_channels=8)
    with torch.no_grad():
        model.stack.layers[1].lin.weight.fill_(1e19)
        model.stack.layers[2].lin.weight.fill_(1e38)
    with pytest.raises(Diverged, match=r"output of blocks\.2\.layer"):
        make_trainer().fit(model, datamodule=tiny)


def test_the_first_bad_parameter_is_named_after_a_non_finite_gradient(tiny, make_trainer):
    model = NodeClassifier(4, 2, layer=GAT, norm=[LipschitzNorm], num_layers=4, hidden_channels=8)
    model.stack.layers[1].att_src.register_hook(lambda grad: grad * torch.nan)
    with pytest.raises(
        Diverged, match=r"at step 1; first non-finite: parameter 'blocks.1.layer.att_src'"
    ):
        make_trainer().fit(model, datamodule=tiny)


def test_a_checkpoint_of_objects_is_not_loaded_with_defaults_in_their_place(
    tiny, make_trainer, tmp_path
):
    parts, path = {"norm": [PairNorm], "skip": Residual}, tmp_path / "model.ckpt"
    model, trainer = NodeClassifier(4, 2, hidden_channels=8, **parts), make_trainer(1)
    trainer.fit(model, datamodule=tiny)
    trainer.save_checkpoint(path, weights_only=True)
    with pytest.raises(ValueError, match=r"does not hold norm, skip: give the same"):
        NodeClassifier.load_from_checkpoint(path, weights_only=True)
    loaded = NodeClassifier.load_from_checkpoint(path, weights_only=True, **parts)
    torch.testing.assert_close(loaded(tiny.batch), model(tiny.batch))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": partial(ReduceLROnPlateau, monitor="val/los")}, "Did you mean 'val/loss'"),
        ({"optimizer": partial(torch.optim.SGD, lr=-1.0)}, "Invalid learning rate: -1"),
    ],
)
def test_what_cannot_train_is_refused_at_the_start(tiny, make_trainer, options, message):
    with pytest.raises((MisconfigurationException, ValueError), match=message):
        make_trainer(1).fit(NodeClassifier(4, 2, **options), datamodule=tiny)


def test_a_training_in_a_script_leaves_the_process_as_it_was(tiny, make_trainer, model, tmp_path):
    def process():
        handlers = [signal.getsignal(number) for number in signal.valid_signals()]
        hooks = threading.excepthook, sys.excepthook
        return dict(os.environ), handlers, hooks, list(warnings.filters)

    before = process()
    recorder = RunRecorder(str(tmp_path))
    recorder.open({}, "run")
    make_trainer(2, callbacks=[recorder]).fit(model, datamodule=tiny)
    assert process() == before


class Penalty(NodeClassifier):
    def __init__(self, in_channels, num_classes, penalty=0.1, **options):
        super().__init__(in_channels, num_classes, **options)
        self.penalty, self.head = penalty, torch.nn.Linear(2, 2)

    def forward(self, *inputs):
        return self.head(super().forward(*inputs))


class Fixed(NodeClassifier):
    """Chooses an option by itself, and passes on the others."""

    def __init__(self, in_channels, num_classes, penalty=0.1, width=4, **options):
        super().__init__(in_channels, num_classes, layer="gat", hidden_channels=width, **options)
        self.penalty = penalty


class Mixin:
    def __init__(self, *args, penalty=0.1, **options):
        super().__init__(*args, **options)
        self.penalty = penalty


class Mixed(Mixin, NodeClassifier):
    """Has no constructor of its own; that of the mixin passes on what it does not know."""

    def predict_step(self, batch, batch_idx):
        return super().predict_step(batch, batch_idx).argmax(1)


@pytest.mark.parametrize("cls", [Penalty, Fixed, Mixed])
def test_a_subclass_has_its_own_arguments_back_from_a_checkpoint(tiny, make_trainer, tmp_path, cls):
    model, path = cls(4, 2, penalty=0.7, num_layers=3), tmp_path / "own.ckpt"
    trainer = make_trainer(2)
    trainer.fit(model, tiny)
    trainer.save_checkpoint(path)
    assert (model.hparams["penalty"], model.hparams["num_layers"]) == (0.7, 3)
    loaded = cls.load_from_checkpoint(path)
    assert (loaded.penalty, len(loaded.stack.layers)) == (0.7, 3)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name])
    with pytest.raises(OSError, match=f"load it with {cls.__name__}.load_from_checkpoint"):
        load_model(path)
    if cls is Penalty:
        with pytest.raises(ValueError, match="has a forward of its own"):
            export_model(model, tmp_path / "own.pt2")
    if cls is Mixed:
        with pytest.raises(ValueError, match=r"predict_step gives the shape \(20,\)"):
            predictions_of(model, tiny)


class OwnSteps(NodeClassifier):
    """Lightning's own example: whole steps, logged by their own names, and no call of super."""

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch)[batch.train_mask], batch.y[batch.train_mask])
        self.log("train/own", loss, batch_size=1)
        return loss

    def validation_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch)[batch.val_mask], batch.y[batch.val_mask])
        self.log("val/own", loss, batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_own_steps_of_a_subclass_are_the_plain_loop(tiny, make_trainer):
    model, trainer, batch = OwnSteps(4, 2), make_trainer(3), tiny.batch
    stack = copy.deepcopy(model.stack)
    for _ in range(3):
        scores = stack(batch.x, batch.graph)
        loss = F.cross_entropy(scores[batch.train_mask], batch.y[batch.train_mask])
        slopes = torch.autograd.grad(loss, [*stack.parameters()])
        for weight, slope in zip(stack.parameters(), slopes, strict=True):
            weight.data -= 0.1 * slope
    trainer.fit(model, tiny)
    assert trainer.callback_metrics["train/own"].item() == pytest.approx(loss.item())
    scores = stack(batch.x, batch.graph)[batch.val_mask]
    expected = F.cross_entropy(scores, batch.y[batch.val_mask]).item()
    assert trainer.callback_metrics["val/own"].item() == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore")  # Lightning's calls of jsonargparse
def test_lightnings_command_line_takes_the_classes_and_their_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split("""fit --seed_everything=0 --trainer.max_epochs=1
        --trainer.accelerator=cpu --trainer.enable_progress_bar=false
        --trainer.log_every_n_steps=1 --data.num_nodes=60 --data.num_edges=120
        --data.num_features=16 --data.num_classes=3 --data.num_val=10
        --data.num_train_per_class=5 --data.num_test=10 --model.in_channels=16
        --model.num_classes=3 --model.layer=gnn_depth.nn.layers.GAT --model.layer.heads=2
        --model.optimizer=torch.optim.SGD --model.optimizer.lr=0.1""")
    monkeypatch.setattr(sys, "argv", ["cli.py", *words])
    cli = LightningCLI(NodeClassifier, SyntheticCitation)
    (saved,) = tmp_path.rglob("*.ckpt")
    loaded = NodeClassifier.load_from_checkpoint(saved)
    assert loaded.stack.layers[0].heads == 2
    assert type(loaded.configure_optimizers()) is torch.optim.SGD
    for name, weight in cli.model.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name])
