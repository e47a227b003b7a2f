"""The record of a run: its folder, its best epoch, when it is saved, and what its result says."""

import json
import math
from types import SimpleNamespace

import lightning as L
import pandas as pd
import pytest
import torch
import yaml

from gnn_depth.runs import event_tag
from gnn_depth.training import NodeClassifier
from gnn_depth.training import recorder as recording
from gnn_depth.training.recorder import RunRecorder, initial_share
from gnn_depth.training.summary import report
from tests.training.conftest import Collect, scalars


@pytest.fixture
def recorder(tmp_path):
    return RunRecorder(root=str(tmp_path / "runs"), name="tiny")


@pytest.fixture
def fit(recorder, make_trainer, tiny, model):
    def run(epochs=4, callbacks=(), data=tiny):
        loggers = recorder.open({"model": {"layer": "gcn"}, "seed_everything": 0}, "unused")
        trainer = make_trainer(epochs, callbacks=[recorder, *callbacks], logger=loggers)
        trainer.fit(model, datamodule=data)
        return trainer

    return run


def result_of(recorder):
    return json.loads((recorder.folder / "result.json").read_text())


def test_a_finished_run_leaves_config_result_curves_report_and_checkpoints(
    fit, recorder, tiny, model, tmp_path
):
    fit()
    assert recorder.folder.parent == tmp_path / "runs" / "tiny"
    config = yaml.safe_load((recorder.folder / "config.yaml").read_text())
    assert config == {"model": {"layer": "gcn"}, "seed_everything": 0}
    names = {path.name for path in (recorder.folder / "checkpoints").iterdir()}
    assert names == {"best.ckpt", "last.ckpt"}
    result = result_of(recorder)
    expected = {"status": "finished", "epochs": 4, "steps": 4, "seed": 0, "device": "cpu"}
    assert expected.items() <= result.items()
    assert result["num_parameters"] == sum(p.numel() for p in model.parameters())
    points = scalars(recorder.folder)
    rows = pd.read_csv(recorder.folder / "metrics.csv")
    for name in ("train/loss", "train/lr", "val/acc", "test/acc"):
        steps, curve = zip(*points[event_tag(name)])
        assert steps == (0, 1, 2, 3), name
        assert rows[name].tolist() == pytest.approx(curve)
    assert model.chance("acc") == 0.5  # both classes are as frequent


def test_checkpoints_hold_the_weights_of_the_best_and_of_the_last_epoch(fit, recorder, model):
    collect = Collect()
    fit(epochs=6, callbacks=[collect])
    seen, weights = collect.metrics, collect.weights
    accuracies = [epoch["val/acc"] for epoch in seen]
    best = accuracies.index(max(accuracies))
    result = result_of(recorder)
    assert result["best_epoch"] == best
    assert result["metrics"]["test_acc_at_best_val"] == pytest.approx(seen[best]["test/acc"])
    assert result["metrics"]["test/acc"] == pytest.approx(seen[-1]["test/acc"])
    for file, epoch in (("best", best), ("last", 5)):
        saved = torch.load(recorder.folder / "checkpoints" / f"{file}.ckpt", weights_only=True)
        assert saved["epoch"] == best or file == "last"
        for name, value in weights[epoch].items():
            assert torch.equal(saved["state_dict"][name], value)


def test_an_epoch_whose_loss_is_undefined_is_never_the_best(recorder):
    metrics = {"val/acc": torch.tensor(0.9), "val/loss": torch.tensor(math.nan)}
    trainer = SimpleNamespace(sanity_checking=False, callback_metrics=metrics)
    recorder.on_validation_end(trainer, None)
    assert recorder.best.epoch is None


def test_metrics_of_an_older_validation_are_not_those_of_the_last_epoch(
    recorder, make_trainer, tiny, model
):
    loggers = recorder.open({}, "unused")
    options = {"callbacks": [recorder], "logger": loggers, "check_val_every_n_epoch": 2}
    make_trainer(7, **options).fit(model, datamodule=tiny)
    kept = result_of(recorder)["metrics"]
    assert "train/loss" in kept
    assert not [name for name in kept if name.startswith(("val/", "test/"))]
    assert recorder.best.epoch % 2 == 1


class Clock(L.Callback):
    """A clock for which an epoch takes some seconds, and the epochs in which it sees a save."""

    def __init__(self, seconds):
        self.now, self.seconds, self.saved = 1000.0, seconds, []

    def on_train_epoch_end(self, trainer, pl_module):
        self.now += self.seconds

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        self.saved.append(trainer.current_epoch)


@pytest.mark.parametrize(
    ("minutes", "every", "seconds", "saved"),
    [(1.0, None, 7.0, [9, 18, 27]), (None, 9, 100.0, [9, 18, 27]), (None, None, 100.0, [])],
)
def test_a_training_is_saved_between_epochs_by_minutes_and_epochs(
    fit, recorder, monkeypatch, minutes, every, seconds, saved
):
    recorder.save_every_minutes, recorder.save_every_epochs = minutes, every
    clock = Clock(seconds)
    monkeypatch.setattr(recording.time, "monotonic", lambda: clock.now)
    fit(epochs=30, callbacks=[clock])
    assert clock.saved == [*saved, 30]  # the last one at the end


def test_running_averages_that_hardly_moved_are_named(recorder, make_trainer, tiny):
    model = NodeClassifier(4, 2, hidden_channels=8, norm="batch")
    loggers = recorder.open({}, "unused")
    make_trainer(6, callbacks=[recorder], logger=loggers).fit(model, datamodule=tiny)
    assert initial_share(model, model.state_dict()) == pytest.approx(0.9**6)
    # The weights of the best epoch count, which are those after one more step.
    steps = recorder.best.epoch + 1
    text = report(recorder, model, {"test/acc": 2.0})
    assert f"{0.9**steps:.0%} of the running averages of batch norm" in text
