"""Random numbers of a training step that depend on nothing before it."""

import hashlib
import random
from typing import Any

import lightning as L
import numpy as np
import torch


def reseed(seed: int, batch: int, rank: int, device: torch.device) -> None:
    r"""Seed every generator that a training step may draw from, with :math:`h(\text{seed}, \text{batch}, \text{rank})`.

    A training that was stopped draws what it would have drawn, however many numbers had been drawn before, by whom, and
    in which process. h is BLAKE2. ``torch.manual_seed`` would ask about all devices, at ten times the cost.

    Args:
        seed: That of the training.
        batch: Number of batches before this one, in all epochs.
        rank: Number of the process.
        device: Where the step is computed.
    """
    drawn = hashlib.blake2b(f"{seed} {batch} {rank}".encode(), digest_size=8).digest()
    number = int.from_bytes(drawn, "little")
    torch.default_generator.manual_seed(number)
    random.seed(number)
    np.random.seed(number % 2**32)
    if device.type != "cpu":
        of_device = torch.get_device_module(device)
        generators = getattr(of_device, "default_generators", ())
        if device.index is not None and device.index < len(generators):
            generators[device.index].manual_seed(number)
        else:
            of_device.manual_seed(number)


class SeededSteps(L.Callback):
    """Call :func:`reseed` at the start of every training batch.

    The seed is the one that torch has when a training begins, ``seed_everything``'s. It is kept in checkpoints, so a
    training goes on with that of its beginning.
    """

    def __init__(self) -> None:
        self.seed: int | None = None

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage == "fit":  # restoring a checkpoint comes later
            self.seed = torch.initial_seed()

    def on_train_batch_start(
        self, trainer: L.Trainer, pl_module: L.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        assert self.seed is not None
        # Batches, not steps: those that are accumulated into one step are to differ.
        reseed(self.seed, trainer.fit_loop.total_batch_idx, trainer.global_rank, pl_module.device)

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.seed = state_dict["seed"]
