"""The values of every epoch on their way to the loggers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import lightning as L
import torch
from torch import Tensor

ROWS = 50
SECONDS = 2.0


@dataclass
class Row:
    """The values of an epoch.

    Attributes:
        epoch: The epoch, counted from 0.
        step: The number of steps before it.
        values: Scalars, on the device where they were made.
    """

    epoch: int
    step: int
    values: dict[str, Tensor] = field(default_factory=dict)


class EpochLog(L.Callback):
    """Keep the values of an epoch on their device, and hand them to the loggers in blocks.

    To log a value the host waits for the device, and each logger writes to its file. A block is 50 epochs, or what came
    in 2 seconds; the last one is handed over when the training ends, however it ends. ``trainer.callback_metrics`` has
    every value at once, for schedules and callbacks.
    """

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._handed_over = time.monotonic()

    def open(self, trainer: L.Trainer) -> None:
        """Begin the row of the step that is about to be made."""
        self._rows.append(Row(trainer.current_epoch, trainer.global_step))

    def put(self, trainer: L.Trainer, values: dict[str, Tensor]) -> None:
        """Add values to the row that was begun last."""
        if not self._rows:  # a run that goes on in the middle of an epoch, after its step
            self._rows.append(Row(trainer.current_epoch, max(trainer.global_step - 1, 0)))
        self._rows[-1].values |= values
        trainer.callback_metrics.update(values)

    def hand_over(self, trainer: L.Trainer) -> None:
        """Give all rows to the loggers."""
        self._rows = [row for row in self._rows if row.values]
        try:
            for values in _numbers(self._rows):
                row = self._rows[0]
                trainer.logged_metrics.update(row.values)
                for logger in trainer.loggers:
                    logger.log_metrics(values | {"epoch": row.epoch}, row.step)
                del self._rows[0]  # Ctrl-C in between loses none
            for logger in trainer.loggers:
                logger.save()
        except Exception:
            self._rows = []  # what could not be written once is not tried again at the end
            raise
        self._handed_over = time.monotonic()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._rows, self._handed_over = [], time.monotonic()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if len(self._rows) >= ROWS or time.monotonic() - self._handed_over >= SECONDS:
            self.hand_over(trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, *_: Any) -> None:
        self.hand_over(trainer)  # the curves of a training that goes on from it begin where these end

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.hand_over(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self.hand_over(trainer)


def means(trainer: L.Trainer, *values: Tensor) -> Sequence[Tensor]:
    """Means of tensors over all processes, in one exchange. Mean confusion matrices have the metrics of their sum.

    Every epoch, not every block: a schedule that watches a metric has to find the same number in every process.
    """
    if trainer.world_size == 1:
        return values
    flat = trainer.strategy.reduce(torch.cat([value.flatten().double() for value in values]), reduce_op="mean")
    parts = flat.split_with_sizes([value.numel() for value in values])
    return [part.view_as(value).to(value.dtype) for part, value in zip(parts, values, strict=True)]


def _numbers(rows: list[Row]) -> list[dict[str, Any]]:
    """The values of rows as numbers, moved from each device at once."""
    values = [value for row in rows for value in row.values.values()]
    numbers: dict[int, float] = {}
    for device in {value.device for value in values}:
        here = [value for value in values if value.device == device]
        numbers |= zip(map(id, here), torch.stack(here).tolist(), strict=True)
    return [{name: numbers[id(value)] for name, value in row.values.items()} for row in rows]
