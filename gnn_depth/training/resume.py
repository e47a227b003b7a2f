"""Stop a training at a point where it can be resumed, and resume it with the same random numbers
and kernels."""

import hashlib
import random
import signal
import sys
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import SIGTERMException

from gnn_depth.data.base import NodeBatch
from gnn_depth.nn import native
from gnn_depth.signals import LATE, DeferredSignals
from gnn_depth.training.lightning_internals import (
    keep_order_of_gradients,
    replace_signal_handlers,
    take_time_limits,
    trains_on_full_batch,
)

# Options of the trainer that decide when a training ends.
ENDS = ("max_epochs", "max_steps", "min_epochs", "min_steps", "callbacks")
UNKNOWN = "unknown"  # in place of the key of a training's kernels, before it begins
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


def fix_kernels(before: str | None, device: torch.device) -> str | None:
    """Choose the kernels of a training that begins or goes on: those of a resumed training's
    checkpoint, if they are available.

    Args:
        before: The key of the checkpoint's kernels (see
            :func:`gnn_depth.nn.native.available_for`), None for PyTorch alone; ``UNKNOWN`` if the
            training begins.
        device: Where it trains.

    Returns:
        The key.
    """
    if before is None:
        # It began on PyTorch alone, from which the kernels differ in the last bits.
        native.use(False)
    key = native.available_for(device)
    if before not in (UNKNOWN, key):
        now = f"{key}: another compiler, processor or version of this package"
        if key is None:
            now = f"PyTorch alone ({native.why_not(device) or 'they are switched off'})"
        rank_zero_only(print)(
            f"this run began on native kernels {before}, and continues on {now}; numbers may "
            "differ in their last bits",
            file=sys.stderr,
        )
    return key


class SafeStop(L.Callback):
    r"""After a signal, stop training where it can be resumed, in all processes at the same step.

    Between two steps and after each epoch, Lightning's loops ask whether to stop. The answer is
    what the processes agree on there: :math:`\max_r n_r`, where :math:`n_r` is the number of the
    signal that process r received. So no process stops alone while the others wait for it. A time
    limit such as ``max_time`` ends the training the same way.
    """

    received_sigterm = False  # Lightning's name: true if the training is to stop here

    def __init__(self, kept: DeferredSignals) -> None:
        self.kept = kept
        self._number = 0
        self._limits: list[tuple[Timer, float]] = []

    def replace(self, trainer: L.Trainer) -> None:
        """Take the place of Lightning's own handlers and time limits."""
        self._limits = take_time_limits(trainer)
        trainer.callbacks.insert(0, self)  # type: ignore[attr-defined]
        replace_signal_handlers(trainer, self)

    def register_signal_handlers(self) -> None:
        """Hold signals back from now on, where Lightning would install its handlers."""
        self.kept.holding = True

    def teardown(self, *_: Any, **__: Any) -> None:
        """Restore nothing: signals stay held back while the last checkpoints are saved."""

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
            self.received_sigterm = self.kept.saving = True
