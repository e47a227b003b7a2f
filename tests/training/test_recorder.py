import csv
import json

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from gnn_depth.training import NodeClassifier
from gnn_depth.training.divergence import Diverged
from gnn_depth.training.recorder import RunRecorder, report
from tests.training.conftest import BreakWeights, Tiny


@pytest.fixture
def recorder(tmp_path):
    return RunRecorder(root=str(tmp_path / "runs"), name="tiny")


@pytest.fixture
def fit(recorder, make_trainer, tiny, model):
    def run(epochs=4, callbacks=(), data=tiny):
        loggers = recorder.open("model: {}\n", {"model.layer": "gcn", "seed": 0}, "unused", 0)
        trainer = make_trainer(epochs, callbacks=[recorder, *callbacks], logger=loggers)
        trainer.fit(model, datamodule=data)
        return trainer

    return run


def result_of(recorder):
    return json.loads((recorder.folder / "result.json").read_text())


def scalars(recorder):
    events = EventAccumulator(str(recorder.folder)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_a_finished_run_leaves_config_result_curves_and_checkpoints(fit, recorder, tmp_path):
    fit()
    assert recorder.folder.parent == tmp_path / "runs" / "tiny"
    assert (recorder.folder / "config.yaml").read_text() == "model: {}\n"
    assert {path.name for path in (recorder.folder / "checkpoints").iterdir()} == {"best.ckpt", "last.ckpt"}
    result = result_of(recorder)
    assert result["status"] == "finished"
    assert result["epochs"] == result["steps"] == 4
    assert result["seed"] == 0
    assert result["num_parameters"] == sum(p.numel() for p in NodeClassifier(4, 2, hidden_channels=8).parameters())


def test_tensorboard_and_csv_show_one_point_an_epoch(fit, recorder):
    fit(epochs=4)
    points = scalars(recorder)
    for tag in ("train/loss", "train/acc", "train/lr", "val/loss", "val/acc", "test/acc"):
        assert [step for step, _ in points[tag]] == [0, 1, 2, 3], tag
    with (recorder.folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for tag in ("train/loss", "val/acc"):
        written = [float(row[tag]) for row in rows if row[tag]]
        assert written == pytest.approx([value for _, value in points[tag]])


def test_the_hparams_page_has_the_config_and_the_final_metrics(fit, recorder):
    fit()
    points = scalars(recorder)
    assert "hp_metric" not in points
    result = result_of(recorder)
    assert points["final/test_acc_at_best_val"][-1][1] == pytest.approx(result["metrics"]["test_acc_at_best_val"])
    hparams = EventAccumulator(str(recorder.folder)).Reload().summary_metadata
    assert "_hparams_/session_start_info" in hparams
    finals = {tag for tag in points if tag.startswith("final/")}
    assert finals == {f"final/{name}_at_best_val" for name in ("val_acc", "test_acc")} | {
        "final/train_loss",
        "final/val_loss",
    }


def test_the_best_epoch_is_the_first_of_the_highest_validation_accuracy(fit, recorder):
    seen = []

    class Watch(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            seen.append({name: value.item() for name, value in trainer.callback_metrics.items()})

    fit(epochs=6, callbacks=[Watch()])
    accuracies = [epoch["val/acc"] for epoch in seen]
    best = accuracies.index(max(accuracies))
    result = result_of(recorder)
    assert result["best_epoch"] == best
    assert result["metrics"]["test_acc_at_best_val"] == pytest.approx(seen[best]["test/acc"])
    assert result["metrics"]["test/acc"] == pytest.approx(seen[-1]["test/acc"])


def test_the_best_checkpoint_holds_the_best_epochs_weights_and_the_last_the_last(fit, recorder, tiny, model):
    weights = []

    class Watch(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            weights.append({name: value.clone() for name, value in pl_module.state_dict().items()})

    fit(epochs=6, callbacks=[Watch()])
    best = torch.load(recorder.folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    last = torch.load(recorder.folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    for name, value in weights[recorder.best.epoch].items():
        assert torch.equal(best[name], value)
    for name, value in weights[-1].items():
        assert torch.equal(last[name], value)
        assert torch.equal(model.state_dict()[name], value)


def test_improvements_write_no_checkpoint(fit, recorder):
    class NoFile(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            assert not (recorder.folder / "checkpoints").exists()

    fit(callbacks=[NoFile()])


def test_a_binary_set_is_selected_by_the_area_under_the_curve(recorder, make_trainer):
    loggers = recorder.open("", {}, "x", 0)
    model = NodeClassifier(4, 2, hidden_channels=8, task="binary")
    make_trainer(2, callbacks=[recorder], logger=loggers).fit(model, datamodule=Tiny("binary"))
    assert recorder.best.monitor == "val/auroc"
    assert "test_auroc_at_best_val" in result_of(recorder)["metrics"]


def test_the_mask_of_missing_features_is_kept_with_the_run(fit, recorder, tiny):
    tiny.missing_mask = torch.arange(20) > 12
    tiny.missing_hash = "of the mask"
    fit()
    assert np.load(recorder.folder / "missing_mask.npy").tolist() == [False] * 13 + [True] * 7
    assert result_of(recorder)["missing_hash"] == "of the mask"


def test_a_diverged_run_is_a_result_with_its_reason(fit, recorder):
    with pytest.raises(Diverged):
        fit(data=Tiny(x=torch.full((20, 4), 3e38)))
    result = result_of(recorder)
    assert result["status"] == "diverged"
    assert "at step 0" in result["reason"]


def test_a_run_that_diverges_late_keeps_its_best_epoch(fit, recorder, model):
    with pytest.raises(Diverged):
        fit(epochs=6, callbacks=[BreakWeights()])
    assert result_of(recorder)["metrics"]["test_acc_at_best_val"] >= 0
    best = torch.load(recorder.folder / "checkpoints" / "best.ckpt", weights_only=True)["state_dict"]
    assert all(value.isfinite().all() for value in best.values())


@pytest.mark.parametrize(
    ("error", "raised", "status"),
    [(KeyboardInterrupt, SystemExit, "interrupted"), (RuntimeError, RuntimeError, "failed")],
)
def test_an_exception_ends_in_its_status(fit, recorder, error, raised, status):
    class Raise(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            if trainer.current_epoch == 2:
                raise error("stop")

    with pytest.raises(raised):
        fit(callbacks=[Raise()])
    result = result_of(recorder)
    assert result["status"] == status
    assert result["best_epoch"] is not None
    assert (recorder.folder / "checkpoints" / "best.ckpt").exists() == (status == "interrupted")


def test_a_run_is_marked_running_before_it_trains(recorder):
    recorder.open("", {}, "x", 0)
    assert result_of(recorder)["status"] == "running"


def test_the_report_names_metrics_folder_and_tensorboard(fit, recorder):
    fit()
    text = report(recorder)
    assert f"best validation in epoch {recorder.best.epoch + 1}" in text
    assert "test_acc_at_best_val" in text
    assert str(recorder.folder) in text
    assert f"tensorboard --logdir {recorder.root}" in text
