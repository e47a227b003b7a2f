"""The point of a training whose state is all in a checkpoint, the means of an epoch included: between two epochs."""

from typing import Any

import lightning as L


def is_between_epochs(trainer: L.Trainer) -> bool:
    """Whether the last epoch is done with everything that belongs to it, and no batch of the next one has been."""
    epoch: Any = trainer.fit_loop.epoch_progress.current
    batches = trainer.fit_loop.epoch_loop.batch_progress
    if epoch.started == epoch.processed:  # before an epoch, or behind it
        return epoch.processed == epoch.completed and (batches.is_last_batch or batches.current.ready == 0)
    return batches.current.ready == 0


def is_within_step(trainer: L.Trainer) -> bool:
    """Whether a step has begun and not ended, so that some parameters may be a step ahead of others."""
    batches: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    return batches.ready != batches.processed


def go_on(trainer: L.Trainer) -> None:
    """Begin a training that goes on from between two epochs as one that begins.

    One with an end in steps takes itself for stopped in the middle of an epoch otherwise: it counts a step that it does
    not make, and passes over a schedule that watches a metric.
    """
    if is_between_epochs(trainer):
        trainer.fit_loop.epoch_loop.restarting = False
        trainer.fit_loop._restarting = False


def begin_next_epoch(loops: dict[str, Any]) -> None:
    """Have the state of Lightning's loops, taken between two epochs, say that the next thing is a whole epoch.

    As it is, it depends on where exactly it was taken whether the next epoch is run or only counted.

    Args:
        loops: Of a checkpoint; changed in place.
    """
    epochs = loops["fit_loop"]["epoch_progress"]
    for progress in (epochs["total"], epochs["current"]):
        progress["ready"] = progress["started"] = progress["completed"] = progress["processed"]
    batches = loops["fit_loop"]["epoch_loop.batch_progress"]
    batches["current"] = dict.fromkeys(batches["current"], 0)
    batches["is_last_batch"] = False
