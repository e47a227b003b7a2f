"""The best epoch of a run."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
from torch import Tensor


class BestEpoch:
    """The epoch with the best validation metric: its metrics, and a copy of its weights in memory.

    Test accuracy at the epoch of the best validation accuracy is how the field reports. Nothing is
    written before :meth:`save` writes a checkpoint. The first of equal epochs counts,
    and none whose validation loss is not finite: the largest of NaN scores is always class 0.

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
        self.weights: dict[str, Tensor] = {}
        self._saved: tuple[Path, int] | None = None

    def see(self, epoch: int, metrics: Mapping[str, float | Tensor], module: L.LightningModule) -> None:
        """Look at an epoch that has just been validated; of its metrics one is read, and the rest if it is better."""
        if self.monitor not in metrics:
            return
        value = float(metrics[self.monitor])
        if self.epoch is not None and not value > self.metrics[self.monitor]:
            return
        if math.isfinite(metrics.get("val/loss", 0.0)):
            self.epoch, self.metrics = epoch, numbers(metrics)
            self.weights = {name: weight.detach().clone() for name, weight in module.state_dict().items()}

    def complete(self, epoch: int, metrics: Mapping[str, float | Tensor]) -> None:
        """Add the metrics that were not known yet when the epoch was validated."""
        if self.epoch == epoch:
            self.metrics = self.metrics | numbers(metrics)

    def save(self, trainer: L.Trainer, path: Path) -> None:
        """Write the best epoch's weights as a checkpoint, without the optimizer's state, unless that is there."""
        if self.epoch is None or self._saved == (path, self.epoch):
            return
        module = trainer.lightning_module
        last = {name: weight.detach().clone() for name, weight in module.state_dict().items()}
        module.load_state_dict(self.weights)
        try:
            trainer.save_checkpoint(path, weights_only=True)
        finally:
            module.load_state_dict(last)
        self._saved = path, self.epoch

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to go on comparing."""
        return {"epoch": self.epoch, "metrics": self.metrics, "weights": self.weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of :meth:`state_dict`."""
        self.epoch, self.metrics, self.weights = state["epoch"], state["metrics"], state["weights"]


def numbers(metrics: Mapping[str, float | Tensor]) -> dict[str, float]:
    """Metrics as numbers, wherever they are now."""
    return {name: float(value) for name, value in metrics.items()}
