"""What the callbacks that measure layers ask of a training, and what they do when it breaks off."""

from collections.abc import Callable

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from lightning.pytorch.utilities import rank_zero_warn


def check_attachment(trainer: L.Trainer, callback: L.Callback) -> None:
    """Refuse a second callback of a class, and a strategy under which no process has the whole model.

    Raises:
        MisconfigurationException: There is one: the files and curves of one would be lost under those of the other; or
            the strategy may keep parts of layers elsewhere.
    """
    name = type(callback).__name__
    same = [other for other in trainer.callbacks if type(other) is type(callback)]  # type: ignore[attr-defined]
    if len(same) > 1:
        patterns = " and ".join(repr(getattr(other, "layers", getattr(other, "stack", ""))) for other in same)
        raise MisconfigurationException(
            f"{len(same)} {name} in one training, for {patterns}, would write the same files "
            "and curves: take one, with a pattern of names that fits all."
        )
    if not isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy):
        raise MisconfigurationException(
            f"{name} looks at whole layers, and {type(trainer.strategy).__name__} may keep parts of them elsewhere: "
            "take trainer.strategy auto or ddp."
        )


def save_despite(callback: L.Callback, save: Callable[[], None]) -> None:
    """Save what was measured until an exception; if that fails too it is a warning, as the exception is to be told."""
    try:
        save()
    except Exception as error:
        rank_zero_warn(f"what {type(callback).__name__} measured last could not be saved: {error}")
