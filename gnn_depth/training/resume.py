"""Stop a training at a point where it can be resumed, and resume it with the same random
numbers."""

import hashlib
import random
import signal
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.utilities.exceptions import SIGTERMException

from gnn_depth.data.base import NodeBatch
from gnn_depth.signals import LATE, DeferredSignals
from gnn_depth.training.lightning_internals import (
    StopSignal,
    keep_order_of_gradients,
    take_time_limits,
    trains_on_full_batch,
)

# Options of the trainer that decide when a training ends.
ENDS = ("max_epochs", "max_steps", "min_epochs", "min_steps", "callbacks")
TIME_IS_UP = 1000  # stands for the time limit; larger than any signal's number


def reseed(seed: int, batch: int, rank: int, device: torch.device) -> None:
    r"""Seed every generator that a training step may draw from with :math:`h(\text{seed},
    \text{batch}, \text{rank})`.

    The random numbers of a step then depend on nothing before it, so a resumed training draws the
    same ones. h is BLAKE2. Not ``torch.manual_seed``, which asks about all devices and is far
    slower. Batches are counted over all epochs.
    """
    hashed = hashlib.blake2b(f"{seed} {batch} {rank}".encode(), digest_size=8).digest()
    number = int.from_bytes(hashed, "little")
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(number)


class SeededSteps(L.Callback):
    """Call :func:`reseed` at the start of every training batch.

    Processes that share one full batch draw the same numbers, and so compute what a single process
    would.

    The seed is torch's when the training begins, which ``seed_everything`` sets. Checkpoints hold
    it, so that a resumed training continues with the original one.
    """

    seed: int | None = None

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit":  # a checkpoint is restored after this
            self.seed = torch.initial_seed()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # Here: the model is wrapped only when the training starts.
        keep_order_of_gradients(trainer.strategy.model)

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: NodeBatch, batch_idx: int
    ) -> None:
        self.seed_batch(trainer)

    def seed_batch(self, trainer: L.Trainer, batch: int | None = None) -> None:
        """Seed as at the start of a batch, counted over all epochs; by default of this one."""
        assert self.seed is not None
        if batch is None:
            # Batches, not optimizer steps: batches that are accumulated into one step must differ.
            batch = trainer.fit_loop.total_batch_idx
        rank = trainer.global_rank
        if trains_on_full_batch(trainer):  # all compute the same step
            rank = 0
        reseed(self.seed, batch, rank, trainer.lightning_module.device)

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seed = state_dict["seed"]


class SafeStop(L.Callback):
    r"""After a signal, stop training where it can be resumed, in all processes at the same step.

    Between two steps and after each epoch, Lightning's loops ask whether to stop. The answer is
    what the processes agree on there: :math:`\max_r n_r`, where :math:`n_r` is the number of the
    signal that process r received. So no process stops alone while the others wait for it. A time
    limit such as ``max_time`` ends the training the same way.
    """

    def __init__(self, kept: DeferredSignals) -> None:
        self.kept = kept
        self._number = 0
        self._limits: list[tuple[Timer, float]] = []

    def replace(self, trainer: L.Trainer) -> None:
        """Replace Lightning's own handlers, which communicate with the other processes in the
        middle of a step."""
        self._limits = take_time_limits(trainer)
        callbacks: list[L.Callback] = trainer.callbacks  # type: ignore[attr-defined]
        self._signal = StopSignal(trainer, self._hold_signals)
        callbacks.insert(0, self)

    def _hold_signals(self) -> None:
        self.kept.holding = True

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        # The end of the epoch follows the last batch; gradients that wait for more batches are in
        # no checkpoint.
        ends_step = (trainer.fit_loop.batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if ends_step and not trainer.is_last_batch:
            self._agree(trainer)

    def on_train_epoch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self._agree(trainer)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        if not isinstance(exception, SIGTERMException):
            return
        reason, code = "max_time", LATE
        if self._number != TIME_IS_UP:
            reason, code = signal.Signals(self._number).name, 128 + self._number
        # The first of several processes reports for all: Lightning kills the rest as soon as
        # another one fails.
        exception.args, exception.code = (reason,), code * trainer.is_global_zero

    def _agree(self, trainer: L.Trainer) -> None:
        number = self.kept.number
        if number == 0 and any(timer.time_elapsed() >= limit for timer, limit in self._limits):
            number = TIME_IS_UP
        if trainer.world_size > 1:
            numbers = torch.tensor([number], device=trainer.strategy.root_device)
            number = int(trainer.strategy.reduce(numbers, reduce_op="max"))
        by_epochs = trainer.current_epoch + 1 == trainer.max_epochs
        is_complete = trainer.is_last_batch and by_epochs
        is_complete = is_complete or 0 <= trainer.max_steps <= trainer.global_step
        if number and not is_complete:  # else the training ends here anyway
            self._number = number
            self._signal.received_sigterm = self.kept.saving = True
