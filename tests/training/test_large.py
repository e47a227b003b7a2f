"""Graphs that do not fit into memory are trained on in parts."""

import pytest
import torch
import torch.nn.functional as F

from gnn_depth.data import MiniBatches


@pytest.mark.parametrize("method", ["partition", "random"])
def test_a_training_on_parts_learns_and_is_measured_on_the_whole_graph(
    tiny, make_trainer, model, method
):
    data = MiniBatches(tiny, method, 2, chunks=2)
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
