"""Graphs that do not fit into memory: the error names the way out, or parts are trained on."""

import pytest
import torch
import torch.nn.functional as F

from gnn_depth.cli import main
from gnn_depth.data import MiniBatches
from gnn_depth.training.module import NodeClassifier

WORDS = """
--data.num_nodes=120 --data.num_edges=240 --data.num_features=30 --data.num_train_per_class=5
--data.num_val=30 --data.num_test=30 --trainer.max_epochs=3 --trainer.accelerator=cpu
--model.hidden_channels=8 --trainer.enable_progress_bar=false
"""
FULL = WORDS.split()


@pytest.mark.parametrize(
    "raised",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_a_step_out_of_memory_names_mini_batches(monkeypatch, tmp_path, capsys, raised):
    def fails(*_):
        raise raised

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(NodeClassifier, "training_step", fails)
    assert main(["fit", *FULL]) != 0
    assert "--data MiniBatches" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["partition", "neighbor"])
def test_a_training_on_parts_learns_and_is_measured_on_the_whole_graph(
    tiny, make_trainer, model, method
):
    data = MiniBatches(tiny, method, 2, chunks=2 if method == "partition" else None)
    before = F.cross_entropy(
        model(tiny.batch)[tiny.batch.train_mask], tiny.batch.y[tiny.batch.train_mask]
    ).item()
    trainer = make_trainer(10)
    trainer.fit(model, datamodule=data)
    assert trainer.global_step == 20
    scores = model.eval()(tiny.batch)
    val, train = tiny.batch.val_mask, tiny.batch.train_mask
    assert F.cross_entropy(scores[train], tiny.batch.y[train]).item() < 0.95 * before
    expected = F.cross_entropy(scores[val], tiny.batch.y[val]).item()
    assert trainer.callback_metrics["val/loss"].item() == pytest.approx(expected, rel=1e-5)
    (predicted,) = trainer.predict(model, datamodule=data)
    torch.testing.assert_close(predicted, scores.softmax(-1))
