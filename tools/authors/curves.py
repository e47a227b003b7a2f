"""What every run of released code gives: accuracies over its epochs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Curves:
    """Accuracies after each epoch, as fractions."""

    val: Sequence[float]
    test: Sequence[float]

    @property
    def best_epoch(self) -> int:
        """The first epoch with the best validation accuracy, counted from 0."""
        return max(range(len(self.val)), key=lambda epoch: (self.val[epoch], -epoch))

    def numbers(self) -> dict[str, float]:
        """Test accuracy in percent under three ways to choose the epoch, and the epochs."""
        return {
            "values": round(100 * float(self.test[self.best_epoch]), 2),
            "last": round(100 * float(self.test[-1]), 2),
            "largest": round(100 * float(max(self.test)), 2),
            "best_epochs": self.best_epoch + 1,
            "epochs": len(self.test),
        }
