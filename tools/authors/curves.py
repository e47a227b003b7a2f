"""What every run of released code gives: accuracies over its epochs, or one accuracy."""

from collections.abc import Sequence
from dataclasses import dataclass

#: None for a number that the released code does not tell.
Numbers = dict[str, float | None]


@dataclass(frozen=True)
class Curves:
    """Accuracies after each epoch, as fractions, and the device: ``cpu`` or ``gpu``."""

    val: Sequence[float]
    test: Sequence[float]
    device: str = "cpu"

    @property
    def best_epoch(self) -> int:
        """The first epoch with the best validation accuracy, counted from 0."""
        return max(range(len(self.val)), key=lambda epoch: (self.val[epoch], -epoch))

    def numbers(self) -> Numbers:
        """Test accuracy in percent under three ways to choose the epoch, and the epochs."""
        return {
            "values": percent(self.test[self.best_epoch]),
            "last": percent(self.test[-1]),
            "largest": percent(max(self.test)),
            "best_epochs": self.best_epoch + 1,
            "epochs": len(self.test),
        }


@dataclass(frozen=True)
class BestAccuracy:
    """The one accuracy that a script keeps, as a fraction, with its epoch and the number of epochs,
    where they are known."""

    accuracy: float
    best_epoch: int | None = None
    epochs: int | None = None
    device: str = "cpu"

    def numbers(self) -> Numbers:
        """As those of :class:`Curves`; what the script does not keep is None."""
        return {
            "values": percent(self.accuracy),
            "last": None,
            "largest": None,
            "best_epochs": self.best_epoch,
            "epochs": self.epochs,
        }


def percent(fraction: float) -> float:
    return round(100 * float(fraction), 2)
