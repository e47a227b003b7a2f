"""When a training is looked at."""

from enum import Enum

import lightning as L
from lightning.pytorch.callbacks import EarlyStopping


class Due(Enum):
    """Whether a step is measured: ``PERHAPS`` is one that is kept only if it turns out to be the last."""

    NO = 0
    YES = 1
    PERHAPS = 2


class Schedule:
    """Every so many steps of the optimizer or epochs, and at the first and the last step of a training.

    Of an epoch its first step. The last step of all is the one at which ``max_steps`` or ``max_epochs`` end the
    training, or after which :class:`EarlyStopping` runs out of patience; what else ends one is not foreseen.

    Args:
        every_n_steps: Steps from one to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step.

    Raises:
        ValueError: Both are given, or one is not positive.
    """

    def __init__(self, every_n_steps: int | None = None, every_n_epochs: int | None = None) -> None:
        for name, value in (("every_n_steps", every_n_steps), ("every_n_epochs", every_n_epochs)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}.")
        if every_n_steps and every_n_epochs:
            raise ValueError(f"take every_n_steps ({every_n_steps}) or every_n_epochs ({every_n_epochs}), not both.")
        self.every_n_steps, self.every_n_epochs = every_n_steps, every_n_epochs
        self._last: float = -1

    def start(self, trainer: L.Trainer) -> None:
        """Find the last step of a training that begins."""
        self._last = trainer.estimated_stepping_batches - 1

    def due(self, trainer: L.Trainer, batch_idx: int) -> Due:
        """Whether the step is measured whose first batch this is.

        Args:
            trainer: Has not made the step yet.
            batch_idx: Number of the batch in its epoch.
        """
        step, epoch = trainer.global_step, trainer.current_epoch
        if self.every_n_epochs:
            regular = epoch % self.every_n_epochs == 0 and batch_idx < trainer.accumulate_grad_batches
        else:
            regular = step % (self.every_n_steps or 1) == 0
        if regular or step in (0, self._last):
            return Due.YES
        return Due.PERHAPS if _may_stop(trainer, batch_idx) else Due.NO


def _may_stop(trainer: L.Trainer, batch_idx: int) -> bool:
    """Whether it is the last step of an epoch, and a callback may stop the training after it."""
    if batch_idx + trainer.accumulate_grad_batches < trainer.num_training_batches:
        return False
    stopping = [callback for callback in trainer.callbacks if isinstance(callback, EarlyStopping)]  # type: ignore[attr-defined]
    return any(callback.wait_count + 1 >= callback.patience for callback in stopping)
