"""What a run would cost, from a few epochs or steps of it."""

import time

import lightning as L
import pytest
import torch
from torch import nn

from gnn_depth.cli import cost

BATCHES, PAUSE = 20, 0.02


class Slow(L.LightningModule):
    """Pauses in every step, and counts them."""

    def __init__(self):
        super().__init__()
        self.weight, self.steps = nn.Parameter(torch.ones(())), 0

    def training_step(self, batch, batch_idx):
        self.steps += 1
        time.sleep(PAUSE)
        return self.weight

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def measured(most, monkeypatch):
    """Seconds of an epoch, and how many steps it took to know."""
    monkeypatch.setattr(cost, "MAX_SECONDS", most)
    module, timer = Slow(), cost.FewSteps()
    off = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
    )
    L.Trainer(accelerator="cpu", max_epochs=99, callbacks=[timer], **off).fit(
        module, list(range(BATCHES))
    )
    return timer.epoch(BATCHES), module.steps


@pytest.mark.parametrize(
    ("most", "steps"),
    [
        (1000.0, [BATCHES * (cost.WARM_UP + cost.MEASURED)]),
        (5 * PAUSE, range(2, BATCHES)),
        (0.0, [1]),
    ],
    ids=["a few epochs", "some steps of a long epoch", "one step"],
)
def test_as_little_is_timed_as_tells_the_length_of_an_epoch(monkeypatch, most, steps):
    seconds, needed = measured(most, monkeypatch)
    assert seconds >= BATCHES * PAUSE
    assert needed in steps
