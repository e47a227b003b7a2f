"""What of a module's arguments a checkpoint holds."""

import inspect
from typing import Any

import lightning as L


class PlainHyperparameters(L.LightningModule):
    """A module whose checkpoints hold plain data, and that knows what they cannot hold."""

    def _save_plain_hyperparameters(self) -> None:
        """Keep what a checkpoint can hold as plain data: all of a config; of a call in Python, what is no object."""
        frame = inspect.currentframe()
        self.save_hyperparameters(frame=frame and frame.f_back)
        kept: tuple[Any, ...] = self._hparams, self._hparams_initial  # of checkpoints, and of loggers
        for hparams in kept:  # YAML has no tuples
            hparams.update({name: list(value) for name, value in hparams.items() if isinstance(value, tuple)})
        defaults = inspect.signature(type(self).__init__).parameters
        objects = [name for name, value in self.hparams.items() if not _plain(value)]
        self._given_as_objects = [name for name in objects if self.hparams[name] is not defaults[name].default]
        self.remove_ignored_hparams(objects)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["given_as_objects"] = self._given_as_objects

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse to stand defaults in for parts that the checkpoint cannot hold."""
        missing = set(checkpoint.get("given_as_objects", ())) - set(self._given_as_objects)
        if missing:
            raise ValueError(
                f"this model was built in Python, and its checkpoint does not hold {', '.join(sorted(missing))}: "
                "give the same to load_from_checkpoint."
            )


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
