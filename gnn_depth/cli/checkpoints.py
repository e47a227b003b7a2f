"""Checkpoints that a command line names: what they hold, and whether that agrees with what else was asked for."""

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import ArgumentParser, Namespace

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.sections import GIVEN_BY_DATA


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says of its run.

    Attributes:
        path: The file.
        hparams: The model's options when it was made.
        data: The data set that it was trained on, as a config names it; None where that is not known.
        epochs: How many epochs it has behind it.
        resumable: Whether it has the optimizer's state.
    """

    path: Path
    hparams: dict[str, Any]
    data: dict[str, Any] | None
    epochs: int
    resumable: bool

    def is_complete(self, max_epochs: int | None) -> bool:
        """Whether nothing is left to train."""
        return self.resumable and max_epochs not in (None, -1) and self.epochs >= max_epochs

    def check_resumable(self) -> None:
        """Refuse to resume from weights alone.

        Raises:
            UsageError: The optimizer's state is missing.
        """
        if not self.resumable:
            raise UsageError(
                f"{self.path} holds weights alone, for validate, test and predict; resume from the run's last.ckpt."
            )

    def check_data(self, hparams: Any) -> None:
        """Refuse data of another shape than the model was trained on.

        Raises:
            UsageError: Number of features or classes, or the task, differ.
        """
        for name in GIVEN_BY_DATA:
            here, there = hparams.get(name), self.hparams.get(name)
            if there is not None and here != there:
                raise UsageError(f"{self.path} was trained on data with {name} {there}, and this data has {here}.")


def read(name: str) -> Checkpoint:
    """Read what a checkpoint says of its run.

    Raises:
        UsageError: There is no such file, or it is no checkpoint of this package.
    """
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"checkpoint {name!r} does not exist (looked in {Path.cwd()}).")
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load does not look at the checksums
            damaged = archive.testzip()
        if damaged:
            raise ValueError(damaged)
        content = torch.load(path, map_location="cpu", weights_only=True)
        hparams = {key: value for key, value in content["hyper_parameters"].items() if not key.startswith("_")}
        data = content.get("datamodule_hyper_parameters", {}).get("data")
        progress = content.get("loops", {}).get("fit_loop", {}).get("epoch_progress", {})
    except Exception as error:  # torch raises many kinds, some of which advise to load pickled code
        raise UsageError(f"{name!r} is no checkpoint of a run, or is damaged ({type(error).__name__}).") from error
    epochs = progress.get("current", {}).get("completed", 0)
    return Checkpoint(path, hparams, data, epochs, resumable="optimizer_states" in content)


def parse(checkpoint: Checkpoint, parser: ArgumentParser, args: list[str], same_data: bool) -> Namespace:
    """Parse a command line with a checkpoint's model and data in place of the defaults.

    Args:
        checkpoint: What is asked of it.
        parser: Knows the options.
        args: The command line.
        same_data: Whether other data than the checkpoint's is an error, as for a training that goes on.

    Raises:
        UsageError: The command line or a config file asks for another model, or for other data if that is an error.
    """
    kept = {name: value for name, value in checkpoint.hparams.items() if name not in GIVEN_BY_DATA}
    base = parser.parse_object({"model": kept, **({"data": checkpoint.data} if checkpoint.data else {})})
    before = _sections(parser, base)
    config = parser.parse_args(args, namespace=base)
    after = _sections(parser, config)
    changed = _differences(before["model"], after["model"], "model")
    if same_data and checkpoint.data:
        moved = "root"  # where the files lie is no part of what they are
        changed += [row for row in _differences(before["data"], after["data"], "data") if not row[0].endswith(moved)]
    if changed:
        rows = "\n".join(f"  {key}: {old} in the checkpoint, {new} asked for" for key, old, new in changed)
        raise UsageError(f"{checkpoint.path} holds another model than the one asked for:\n{rows}")
    return config


def _sections(parser: ArgumentParser, config: Namespace) -> Any:
    return yaml.safe_load(parser.dump(config, skip_unset=False, skip_validation=True))


def _differences(old: Any, new: Any, key: str) -> list[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in ("name", "class_path"):
            if old.get(name) != new.get(name):  # options of different parts are not worth comparing
                return [(key, old.get(name, old), new.get(name, new))]
        keys = list(dict.fromkeys([*old, *new]))
        return [row for k in keys for row in _differences(old.get(k), new.get(k), f"{key}.{k}")]
    return [] if old == new else [(key, old, new)]
