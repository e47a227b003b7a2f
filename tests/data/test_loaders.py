"""Loaders whose batches depend on the epoch, and a training that resumes in the middle of one."""

import logging
from itertools import chain
from unittest.mock import Mock

import lightning as L
import pytest
import torch

from gnn_depth.data import DataError, MiniBatches, TreeNeighborsMatch
from gnn_depth.data.loaders import share
from tests.data.test_mini_batches import Ring

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Listener(L.LightningModule):
    """Learns nothing, and notes the batches of each epoch; optionally stops dead before one."""

    def __init__(self, stop_before=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.heard, self.stop_before = {}, stop_before

    def training_step(self, batch, batch_idx):
        if self.global_step == self.stop_before:
            raise KeyboardInterrupt
        heard = [tensor.tolist() for tensor in (batch.x, batch.y, batch.graph.edge_index)]
        self.heard.setdefault(self.current_epoch, []).append(heard)
        return self.weight * 0

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Save(L.Callback):
    """Save when a training is stopped, or after a number of steps."""

    def __init__(self, path, after=None):
        self.path, self.after = path, after

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.after:
            trainer.save_checkpoint(self.path)

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.path)


def listen(data, path, epochs=3, resume=False, stop_before=None, save_after=None):
    """Fit with everything of Lightning's left at its default; the batches of each epoch."""
    quiet = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
    )
    module = Listener(stop_before)
    trainer = L.Trainer(
        max_epochs=epochs, accelerator="cpu", callbacks=[Save(path, save_after)], **quiet
    )
    try:
        trainer.fit(module, datamodule=data(), ckpt_path=path if resume else None)
    except SystemExit:  # Lightning's answer to Ctrl-C
        return module.heard
    if not save_after:
        trainer.save_checkpoint(path)
    return module.heard


SETS = {
    "trees": lambda: TreeNeighborsMatch(depth=2, batch_size=16),
    "mini-batches": lambda: MiniBatches(Ring(), "random", 5),
}


@pytest.mark.parametrize(
    ("data", "how", "batches"),
    [
        ("mini-batches", {"stop_before": 7}, 7),
        ("mini-batches", {"save_after": 5}, 5),
        ("trees", {"stop_before": 7}, 7),
    ],
    ids=str,
)
def test_a_resumed_training_sees_every_batch_that_was_left_and_no_other(
    tmp_path, data, how, batches
):
    data = SETS[data]
    whole = listen(data, tmp_path / "whole.ckpt")
    assert [len(epoch) for epoch in whole.values()] == [5, 5, 5]
    loader = data().train_dataloader()
    loader.sampler.set_epoch(2)
    heard = [
        [tensor.tolist() for tensor in (batch.x, batch.y, batch.graph.edge_index)]
        for batch in loader
    ]
    assert whole[2] == heard, "Lightning sets the epoch"
    listen(data, tmp_path / "kept.ckpt", **how)
    rest = listen(data, tmp_path / "kept.ckpt", resume=True)
    assert list(chain(*rest.values())) == list(chain(*whole.values()))[batches:]
    assert all(rest[epoch] == whole[epoch][-len(rest[epoch]) :] for epoch in rest)


def test_what_the_processes_do_not_divide_is_refused():
    trainer = Mock(spec=L.Trainer, global_rank=3, world_size=4)
    with pytest.raises(DataError, match="batch_size 1022 .*4 processes"):
        share(trainer, "batch_size", 1022)
    assert share(trainer, "batch_size", 1024) == (3, 4)
    assert share(None, "batch_size", 3) == (0, 1)
