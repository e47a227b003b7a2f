"""The end of a training that was asked to stop."""

import signal
from typing import Any

import lightning as L
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException

from gnn_depth.signals import Kept


class SafeStop(L.Callback):
    r"""End a training that was asked to stop where it can be gone on with, in all processes at the same step.

    Lightning's loops ask between two steps of an epoch and after it whether to stop, and raise the same exception
    then as they do for SIGTERM. What they are told is what the processes agree on at that point,
    :math:`\max_r n_r` for the number :math:`n_r` of the signal that process r was sent: none stops alone, while the
    others wait for it.

    Args:
        kept: The signals of this process; they are kept from the first step on.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.received_sigterm = False

    def replace(self, trainer: L.Trainer) -> None:
        """Put it in the place of Lightning's handlers, which talk to the other processes in the middle of a step."""
        trainer._signal_connector = Connector(self)  # type: ignore[assignment]
        trainer.callbacks.insert(0, self)  # type: ignore[attr-defined]

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if not trainer.is_last_batch:  # after the last one comes the end of the epoch
            self._agree(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._agree(trainer)

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        if isinstance(exception, SIGTERMException):
            exception.args = (signal.Signals(self.kept.number).name,)
            # Of several processes the first tells how all have ended: Lightning kills what is left when another fails.
            exception.code = 128 + self.kept.number if trainer.is_global_zero else 0

    def _agree(self, trainer: L.Trainer) -> None:
        number = self.kept.number
        if trainer.world_size > 1:
            numbers = torch.tensor([number], device=trainer.strategy.root_device)
            number = int(trainer.strategy.reduce(numbers, reduce_op="max"))
        if number and not _is_complete(trainer):
            self.kept.number, self.kept.saving = number, True
            self.received_sigterm = True


class Connector:
    """What a trainer asks of its own handler of signals."""

    def __init__(self, stop: SafeStop) -> None:
        self._stop = stop

    @property
    def received_sigterm(self) -> bool:
        """Whether to stop now."""
        return self._stop.received_sigterm

    def register_signal_handlers(self) -> None:
        """Called when everything is there to begin with, or restored to go on."""
        self._stop.kept.holding = True

    def teardown(self) -> None:
        """Called after the last step; what is saved after that is saved undisturbed, so nothing changes here."""


def _is_complete(trainer: L.Trainer) -> bool:
    """Whether the steps that were asked for are done, so that the training is at its end anyway."""
    epochs, steps = trainer.max_epochs, trainer.max_steps
    by_epochs = epochs not in (None, -1) and trainer.current_epoch + 1 >= epochs
    return (trainer.is_last_batch and by_epochs) or 0 <= steps <= trainer.global_step
