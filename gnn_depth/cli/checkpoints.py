"""Checkpoints that a command line names: what they hold, and whether that agrees with what else was asked for."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import yaml
from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.sections import GIVEN_BY_DATA, PATHS
from gnn_depth.training.checkpoints import read_checkpoint

MAX_SEED = 2**32 - 1  # NumPy's


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint says of its run.

    Attributes:
        path: The file.
        hparams: The model's options when it was made.
        data: The data set that it was trained on, as a config names it; None where that is not known.
        data_sha256: The checksum of that data; None where that is not known.
        seed: What its random numbers follow from; None where that is not known.
        epochs: How many epochs it has behind it.
        steps: How many steps.
        resumable: Whether it has the optimizer's state.
    """

    path: Path
    hparams: dict[str, Any]
    data: dict[str, Any] | None
    data_sha256: str | None
    seed: int | None
    epochs: int
    steps: int
    resumable: bool

    def is_complete(self, trainer: L.Trainer) -> bool:
        """Whether nothing is left to train."""
        ends = ((self.epochs, trainer.max_epochs), (self.steps, trainer.max_steps))
        return self.resumable and any(end not in (None, -1) and done >= end for done, end in ends)

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

    def check_same_data(self, data: dict[str, Any], data_sha256: str) -> None:
        """Refuse to go on with other data that lies elsewhere; data that lies where it lay is warned of.

        Args:
            data: The data set, as a config names it.
            data_sha256: Its checksum.

        Raises:
            UsageError: It was named otherwise, and its checksum is another.
        """
        if self.data_sha256 in (None, data_sha256):
            return
        said = f"{self.path} was trained on data whose SHA-256 is {self.data_sha256}, and that of this data is"
        if data != self.data:
            raise UsageError(f"{said} {data_sha256}: a training goes on with data that was moved, not with other data.")
        warn(f"{said} {data_sha256}: its files were changed, or this machine rounds otherwise.")

    @property
    def age(self) -> str:
        """What of a training is behind it."""
        return f"after {self.epochs} epochs" if self.resumable else "weights alone"


def read(path: Path) -> Checkpoint:
    """Read what a checkpoint says of its run.

    Raises:
        UsageError: There is no such file, it is damaged, or it is no checkpoint of this package.
    """
    if not path.is_file():
        raise UsageError(f"checkpoint {str(path)!r} does not exist (looked in {Path.cwd()}).")
    try:
        content = read_checkpoint(path)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{str(path)!r} is damaged, or no checkpoint of a run: {why}.") from error
    try:
        hparams = {key: value for key, value in content["hyper_parameters"].items() if not key.startswith("_")}
        data = content.get("datamodule_hyper_parameters", {})
        progress = content.get("loops", {}).get("fit_loop", {}).get("epoch_progress", {})
        epochs = progress.get("current", {}).get("completed", 0)
        seed = content.get("callbacks", {}).get("SeededSteps", {}).get("seed")
        resumable = "optimizer_states" in content
        return Checkpoint(
            path, hparams, data.get("data"), data.get("sha256"), seed, epochs, content["global_step"], resumable
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{str(path)!r} is no checkpoint of a run of gnn-depth.") from error


def parse(checkpoint: Checkpoint, parser: ArgumentParser, args: list[str], goes_on: bool) -> Namespace:
    """Parse a command line with a checkpoint's model and data in place of the defaults; its seed, too, if it goes on.

    Args:
        checkpoint: What is asked of it.
        parser: Knows the options.
        args: The command line.
        goes_on: Whether it is for a training that goes on, so that other data or another seed is an error.

    Raises:
        UsageError: The command line or a config file asks for another model, or for other data if that is an error.
    """
    kept = {name: value for name, value in checkpoint.hparams.items() if name not in GIVEN_BY_DATA}
    stands = {"model": kept, **({"data": checkpoint.data} if checkpoint.data else {})}
    seeded = goes_on and checkpoint.seed is not None and checkpoint.seed <= MAX_SEED  # torch's own is larger
    base = parser.parse_object(stands | ({"seed_everything": checkpoint.seed} if seeded else {}))
    before = _sections(parser, base)
    config = parser.parse_args(args, namespace=base)
    after = _sections(parser, config)
    changed = _differences(before["model"], after["model"], "model")
    if seeded:
        changed += _differences(checkpoint.seed, config.seed_everything, "seed_everything")
    if goes_on and checkpoint.data:
        rows = _differences(before["data"], after["data"], "data")
        changed += [row for row in rows if row[0].rpartition(".")[2] not in PATHS]  # what lies there is compared later
    if changed:
        lines = "\n".join(f"  {key}: {old} in the checkpoint, {new} asked for" for key, old, new in changed)
        raise UsageError(f"{checkpoint.path} is of another run than the one asked for:\n{lines}")
    return config


@rank_zero_only
def warn(text: str) -> None:
    """Say what is not as expected, and no error."""
    print(f"warning: {text}", file=sys.stderr)


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
