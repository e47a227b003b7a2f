"""The best epoch of a run."""

from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import Tensor


class BestEpoch(L.Callback):
    """Remember the epoch with the best validation metric: its metrics, and a copy of its weights in memory.

    Test accuracy at the epoch of the best validation accuracy is how the field reports. Nothing is
    written before the end, when :meth:`save` writes ``best.ckpt`` once. The first of equal epochs counts.

    Args:
        monitor: The metric to maximise.

    Attributes:
        epoch: The best epoch, counted from 0, or None before the first validation.
        metrics: All metrics that were logged in that epoch.
    """

    def __init__(self, monitor: str = "val/acc") -> None:
        self.monitor = monitor
        self.epoch: int | None = None
        self.metrics: dict[str, float] = {}
        self._weights: dict[str, Tensor] = {}

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.sanity_checking or self.monitor not in trainer.callback_metrics:
            return
        value = trainer.callback_metrics[self.monitor].item()
        if self.epoch is None or value > self.metrics[self.monitor]:
            self.epoch = trainer.current_epoch
            self.metrics = {name: metric.item() for name, metric in trainer.callback_metrics.items()}
            self._weights = {name: weight.detach().clone() for name, weight in pl_module.state_dict().items()}

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Training metrics of an epoch are known after its validation only.
        if self.epoch == trainer.current_epoch:
            self.metrics |= {name: metric.item() for name, metric in trainer.callback_metrics.items()}

    def save(self, trainer: L.Trainer, path: Path) -> None:
        """Write the best epoch's weights as a checkpoint, without the optimizer's state."""
        module = trainer.lightning_module
        last = {name: weight.detach().clone() for name, weight in module.state_dict().items()}
        module.load_state_dict(self._weights)
        try:
            trainer.save_checkpoint(path, weights_only=True)
        finally:
            module.load_state_dict(last)

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "metrics": self.metrics, "weights": self._weights}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch, self.metrics = state_dict["epoch"], state_dict["metrics"]
        self._weights = {name: torch.as_tensor(weight) for name, weight in state_dict["weights"].items()}
