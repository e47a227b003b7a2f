"""When a training is saved, so that a machine that dies takes little with it."""

import time

import lightning as L

SHARE = 0.01  # of the time of a training, at most, goes into saving it
LOOK_SECONDS = 1.0  # between two looks at the clock


class Autosave:
    """Decides before each epoch whether to save.

    The clock of the first process decides for all. The others are told about once a second, before an epoch that all
    of them know beforehand: asking every epoch would cost small graphs more than an epoch's own exchange.

    Args:
        minutes: Time between two saves, longer where saving takes more than a hundredth of it; None for never.
        epochs: Number of epochs after which it is saved besides, whatever the time; None for never.

    Raises:
        ValueError: One is not positive.
    """

    def __init__(self, minutes: float | None, epochs: int | None) -> None:
        if minutes is not None and not minutes > 0:
            raise ValueError(f"save_every_minutes is above 0, or null for never, not {minutes}.")
        if epochs is not None and epochs < 1:
            raise ValueError(f"save_every_epochs is 1 or more, or null for never, not {epochs}.")
        self.minutes, self.epochs = minutes, epochs
        self._cost = 0.0

    def start(self, epoch: int) -> None:
        """Begin to wait; nothing before this epoch is new."""
        self._start = self._looked_epoch = epoch
        self._next_look, self._ahead = epoch + 1, 1
        self._saved = self._looked = time.monotonic()

    def saved(self, began: float) -> None:
        """Begin to wait again after what began at a time of the clock."""
        self._saved = time.monotonic()
        self._cost = self._saved - began

    def due(self, trainer: L.Trainer) -> bool:
        """Whether to save now, before an epoch, with the same answer in all processes."""
        epoch = trainer.current_epoch
        if self.epochs is not None and epoch > self._start and (epoch - self._start) % self.epochs == 0:
            return True
        if self.minutes is None or epoch < self._next_look:
            return False
        due, self._ahead = trainer.strategy.broadcast(self._look(epoch))
        self._next_look = epoch + self._ahead
        return due

    def _look(self, epoch: int) -> tuple[bool, int]:
        """Whether it is time, and how many epochs it takes until the next look: at most twice as many as before."""
        assert self.minutes is not None
        now = time.monotonic()
        pace = (epoch - self._looked_epoch) / max(now - self._looked, 1e-9)
        self._looked, self._looked_epoch = now, epoch
        due = now - self._saved >= max(60 * self.minutes, self._cost / SHARE)
        return due, max(1, min(int(pace * LOOK_SECONDS), 2 * self._ahead))
