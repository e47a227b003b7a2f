"""Build data, model and trainer from a command line."""

import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning as L
from jsonargparse import Namespace
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar

import gnn_depth.data
import gnn_depth.diagnostics
import gnn_depth.nn  # noqa: F401  (all three register or define parts that can be named)
from gnn_depth.builder import check, made, made_options
from gnn_depth.cli import checkpoints, trust
from gnn_depth.cli.config import (
    Arguments,
    flags,
    merge,
    resolved_config,
    section,
    to_yaml,
    value_of,
)
from gnn_depth.cli.errors import UsageError, explained
from gnn_depth.cli.identity import hparams, identity, version
from gnn_depth.cli.known import known_parts
from gnn_depth.data.base import GraphDataModule
from gnn_depth.runs import Origin, digest
from gnn_depth.short_names import Option
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import VerifiedCheckpoints
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.models import build_model
from gnn_depth.training.module import check_precision
from gnn_depth.training.recorder import RunRecorder

MAX_NAME = 100  # characters of a run's name, which is a folder's
# Lightning would take bf16-mixed on a CPU, and the config would say another.
HALF = ("16", "16-mixed")


class CommandLineInterface:
    """Data, model and trainer of a command, which decides on the options, and of the arguments
    after it.

    Without ``build`` nothing is built, only checked.

    Attributes:
        resolved: The config with every default, as plain values: what runs.
        config: The same, by attribute, with the path of the checkpoint that was found.
    """

    datamodule: GraphDataModule
    model: NodeClassifier
    trainer: L.Trainer

    def __init__(self, command: str, arguments: Arguments, build: bool = True) -> None:
        self.command = command
        self.arguments = arguments
        self.known = known_parts(command, arguments.plugins)
        self.checkpoint: checkpoints.Checkpoint | None = None
        self._started_in = Path.cwd()
        if arguments.prints_config:
            print(to_yaml(self.resolve(arguments)), end="")
            sys.exit(0)
        self.ckpt_path_asked = value_of("ckpt_path", arguments, self.known)
        base: dict[str, Any] = {}
        trains = command == "fit"
        if self.ckpt_path_asked:
            self.checkpoint = checkpoints.find(str(self.ckpt_path_asked), trains, self._asked)
        if self.checkpoint:
            trust.check_checkpoint(self.checkpoint, arguments)
            base = self.checkpoint.config(with_seed=trains)
        self._options = merge(arguments, self.known, base)
        if command != "partition":
            self._options["ckpt_path"] = str(self.checkpoint.path) if self.checkpoint else None
        self.resolved = resolved_config(self._options, self.known)
        self.config = Namespace(**self.resolved)  # type: ignore[no-untyped-call]
        if self.checkpoint:
            self._check_checkpoint(self.checkpoint, base)
        if build:
            self._build()

    def resolve(self, arguments: Arguments) -> dict[str, Any]:
        """The resolved config of other arguments."""
        return resolved_config(merge(arguments, self.known), self.known)

    def _check_checkpoint(self, checkpoint: checkpoints.Checkpoint, base: dict[str, Any]) -> None:
        """A checkpoint's model and data stand in for the defaults; a contradiction is an error."""
        trains = self.command == "fit"
        before = resolved_config(merge(Arguments(), self.known, base), self.known)
        checkpoint.check_config(before, self.resolved, goes_on=trains)
        run = checkpoint.path.parent.parent
        changed = checkpoints.changes(run, self.resolved) if trains else []
        if changed:
            checkpoints.warn(
                f"{run} goes on with other code or precision than before: {'; '.join(changed)}."
            )
        if self.resolved.get("force") is False:
            checkpoint.check_trained()

    def _asked(self) -> tuple[Path, dict[str, Any]]:
        """The folder of the runs of this name, and the resolved config."""
        found = self.resolve(self.arguments)
        name = found["run"]["name"] or self._run_name(found["model"])
        return Path(found["run"]["root"]) / name, found

    def _build(self) -> None:
        """Build the data, then the model, then the trainer."""
        seed = self.resolved["seed_everything"]
        self.resolved["seed_everything"] = L.seed_everything(seed, workers=True)
        self.config.seed_everything = self.resolved["seed_everything"]
        with explained():
            data = self._options.get("data") or check("data", self.known.options["data"].default)
            self.datamodule = made(data)
            self.model = build_model(self.resolved["model"], self.datamodule)
            self.recorder = RunRecorder(**self.resolved["run"])
            self.config_init: dict[str, Any] = {"trainer": self._trainer_options()}
            self.trainer = self.instantiate_trainer()
            of_data = {"data": self.resolved["data"]}
            self.datamodule.save_hyperparameters(of_data, logger=False)
            if self.checkpoint:
                sha256 = self.data_sha256 if self.command == "fit" else None
                self.checkpoint.check_data(self.model.hparams, of_data["data"], sha256)

    def _trainer_options(self) -> dict[str, Any]:
        """Every option of the trainer, with the objects that the given ones stand for."""
        known: dict[str, Option] = section(self.known.options, "trainer")
        defaults = {name: option.default for name, option in known.items()}
        return defaults | made_options(known, section(self._options, "trainer"))

    def instantiate_trainer(self) -> L.Trainer:
        """Lightning's trainer, with our callbacks."""
        config = dict(self.config_init["trainer"])
        callbacks = list(config["callbacks"] or [])
        has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
        shown = [] if config["enable_progress_bar"] is False or has_bar else [EpochProgress()]
        if config["enable_checkpointing"] is None:
            config["enable_checkpointing"] = any(
                isinstance(callback, ModelCheckpoint) for callback in callbacks
            )
        if config["logger"] is None:
            config["logger"] = False  # the run's own loggers come with its folder
        config["callbacks"] = [*callbacks, *shown, self.recorder]
        trainer = L.Trainer(**config)
        check_precision(trainer)
        if str(config["precision"]) in HALF and trainer.precision not in HALF:
            raise UsageError(
                f"trainer.precision {config['precision']} needs a GPU: on a CPU use bf16-mixed, "
                "bf16-true or 32."
            )
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:  # the user named no other
            trainer.strategy.checkpoint_io = VerifiedCheckpoints()
        return trainer

    def open_run(self, origin: Origin | None = None) -> None:
        """Give the run its folder and loggers; loggers that the user chose stay, and ``false``
        means none."""
        config = self.config_init["trainer"]
        if config["fast_dev_run"]:
            return
        os.chdir(self._started_in)  # a plugin's part that leaves it would move the run
        if origin is None:  # it stands alone
            plugins = [version(plugin) for plugin in self.resolved.get("plugins") or []]
            facts = {
                "identity": identity(self.resolved, self.data_sha256),
                "data_sha256": self.data_sha256,
            }
            from_checkpoint = {"resumed_from": str(self.checkpoint.path)} if self.checkpoint else {}
            origin = Origin({**facts, "plugins": plugins, **from_checkpoint})
        self.datamodule.save_hyperparameters({"sha256": origin.facts["data_sha256"]}, logger=False)
        text, seed = to_yaml(self.resolved), self.config["seed_everything"]
        name = self._run_name(self.resolved["model"])
        loggers = self.recorder.open(text, hparams(self.resolved), name, seed, origin)
        if config["logger"] is not False:
            self.trainer.loggers = [*loggers, *self.trainer.loggers]

    @property
    def what(self) -> str:
        """Model and data in words: ``30 layers of GAT on Cora``."""
        layers = self.model.stack.layers
        names = (getattr(self.datamodule, name, None) for name in ("name", "dataset"))
        data = next(filter(None, names), type(self.datamodule).__name__)
        return (
            f"{len(layers)} layer{'s' * (len(layers) > 1)} of {type(layers[0]).__name__} on {data}"
        )

    @cached_property
    def data_sha256(self) -> str:
        """The checksum of the data."""
        return self.datamodule.checksum

    def _run_name(self, model: dict[str, Any]) -> str:
        """The last config file's name, or the parts (``gat_lipschitz_30``); then what flags change:
        ``-norm_none``."""
        files = [source.name for source in self.arguments.sources if source.is_file]
        parts = [model["layer"], *model["norm"]]
        names = [part if isinstance(part, str) else part.get("name", "own") for part in parts]
        name = Path(files[-1]).stem if files else "_".join([*names, str(model["num_layers"])])
        named: tuple[str, ...] = () if files else ("layer", "norm", "num_layers")
        changed = {}
        for flag, key, value in flags(self.arguments.argv, self.known):
            top, _, option = key.partition(".")
            last = key.rpartition(".")[2]
            if top in ("model", "data") and option not in named and not self._is_path(key):
                text = re.sub(r"[^\w.]+", "_", f"{last} {value}").strip("_")
                changed[f"{key} {value}" if flag.endswith("+") else key] = text
        name = "-".join([name, *changed.values()])
        return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}-{digest(name)[:8]}"

    def _is_path(self, key: str) -> bool:
        """True for an option of a data set that names a file or folder."""
        last = key.rpartition(".")[2]
        for part in self.known.parts["data"].values():
            if key.startswith("data.") and last in part.options and part.options[last].is_path:
                return True
        return False
