"""Build data, model and trainer from a command line."""

import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import lightning as L
from jsonargparse import Namespace
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

import gnn_depth.diagnostics  # noqa: F401  (the parser finds imported callbacks by class name)
from gnn_depth.cli import checkpoints, trust
from gnn_depth.cli.config import (
    PATHS,
    Arguments,
    Known,
    flags,
    full_paths,
    merge,
    options_of,
    parse,
    resolved,
    to_yaml,
    value_of,
)
from gnn_depth.cli.errors import UsageError, explained
from gnn_depth.cli.hparams import hparams
from gnn_depth.cli.identity import identity, version
from gnn_depth.cli.outputs import PREDICTIONS_TEXT
from gnn_depth.cli.probe import add_probe_options
from gnn_depth.data.base import GraphDataModule
from gnn_depth.ranges import Count, Range
from gnn_depth.runs import Origin, digest
from gnn_depth.short_names import imported_parts
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import VerifiedCheckpoints
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.module import check_precision
from gnn_depth.training.recorder import RunRecorder

MAX_NAME = 100  # characters of a run's name, which is a folder's
SEED = Annotated[int, Range(0, 2**32 - 1)]  # NumPy's
DEFAULT_DATA = "gnn_depth.data.synthetic.SyntheticCitation"
LINKS = {
    "num_features": "in_channels",
    "num_classes": "num_classes",
    "task": "default_task",
    "num_edge_features": "edge_channels",
}
TRAINER_DEFAULTS = {
    "max_epochs": 200,
    "log_every_n_steps": 1,  # Lightning's 50 shows one point of fifty: a full batch is one step an epoch
    "num_sanity_val_steps": 0,  # would be the same forward pass as the first epoch's validation
    "enable_model_summary": False,  # of one stack and three empty metrics; the report has the number of parameters
    "use_distributed_sampler": False,  # it would shuffle, and pad the test set
}
HALF = ("16", "16-mixed")  # Lightning would take bf16-mixed on a CPU, and the config would say another
NAMED = "a file, a run folder (its best checkpoint), or `last` (the newest run of this name)"
CKPT_HELP = {
    "fit": "Checkpoint to resume from, in a new folder: a file, a run folder, `last` or `auto`. `last` is the newest "
    "run of this name, `auto` the newest one with the same model, data, seed and code, if there is one.",
    "validate": f"Checkpoint to validate: {NAMED}. Without one the untrained model is validated.",
    "test": f"Checkpoint to test: {NAMED}.",
    "predict": f"Checkpoint to predict with: {NAMED}.",
    "probe": f"Checkpoint to probe: {NAMED}. Without one the untrained model is probed.",
}


class Parser(LightningArgumentParser):
    """Lightning's parser without reading of files, which :mod:`gnn_depth.cli.config` has already done."""

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        return super().add_class_arguments(*args, **kwargs | {"sub_configs": False})


class CommandLineInterface(LightningCLI):
    """Build data, model and trainer from a command line.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``: it decides which options there are.
        arguments: The command-line arguments after it.
        build: Whether anything is built, or only parsed.
    """

    def __init__(self, command: str, arguments: Arguments, build: bool = True) -> None:
        self.command = command
        self.arguments = arguments
        self.build = build
        self.checkpoint: checkpoints.Checkpoint | None = None
        self.ckpt_path_asked: Any = None
        self._started_in = Path.cwd()
        super().__init__(
            NodeClassifier,
            GraphDataModule,
            save_config_callback=None,
            trainer_defaults=TRAINER_DEFAULTS,
            seed_everything_default=0,
            parser_class=Parser,
            parser_kwargs={
                "prog": f"gnn-depth {command}",
                "usage": f"gnn-depth {command} [--config FILE]... [--OPTION VALUE]...",
                "description": "Options are merged in this order: defaults, config files, command line.",
                "dump_header": None,
                "exit_on_error": False,
            },
            subclass_mode_data=True,
            args=arguments.argv,
            run=False,
            auto_configure_optimizers=False,
        )

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--seed_everything", type=SEED, default=0, help="Seed of all random numbers.")
        parser.add_argument(
            "--plugins",
            type=list[str],
            default=[],
            help="Python files or modules that register parts, imported first; may be repeated. "
            "Paths count from the working directory, in a config file from that file's folder.",
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.set_defaults({"data": {"class_path": DEFAULT_DATA}})
        for source, target in LINKS.items():
            parser.link_arguments(f"data.{source}", f"model.{target}", apply_on="instantiate")
        parser.add_lightning_class_args(RunRecorder, "run")
        if self.command in CKPT_HELP:
            parser.add_argument("--ckpt_path", type=str | None, default=None, help=CKPT_HELP[self.command])
        if self.command in ("validate", "test", "predict"):
            parser.add_argument("--force", action="store_true", help="Use a checkpoint of a model that has diverged.")
        if self.command == "predict":
            parser.add_argument(
                "--output",
                type=str | None,
                default=None,
                help=f"File for every node's class probabilities; {PREDICTIONS_TEXT} by its suffix.",
            )
        if self.command == "partition":
            parser.add_argument("--parts", type=Count, default=2, help="Number of parts.")
            nodes = "Division of the nodes: contiguous, metis, or a .npy file with the part of each node."
            parser.add_argument("--nodes", type=str, default="contiguous", help=nodes)
            parser.add_argument("--output", type=str | None, default=None, help="A new folder for the files.")
        if self.command == "probe":
            add_probe_options(parser)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Merge and parse; a checkpoint's model and data stand in for the defaults, and a contradiction is an error."""
        self.known = Known(imported_parts(), options_of(parser), self.arguments.plugins)
        if self.arguments.prints_config:
            print(to_yaml(self.resolve(self.arguments)), end="")
            sys.exit(0)
        self.ckpt_path_asked = value_of("ckpt_path", self.arguments, self.known)
        trains, base = self.command == "fit", {}
        if self.ckpt_path_asked:
            self.checkpoint = checkpoints.find(str(self.ckpt_path_asked), trains, self._asked)
        if self.checkpoint:
            self._check_trusted(self.checkpoint)
            base = self.checkpoint.config(with_seed=trains)
        self.config = self._parse(self.arguments, base, parser)
        if self.checkpoint:
            before = resolved(self._parse(Arguments([], [], []), base, parser), parser)
            self.checkpoint.check_config(before, resolved(self.config, parser), goes_on=trains)
            run = self.checkpoint.path.parent.parent
            if trains and (changed := checkpoints.changes(run, resolved(self.config, parser))):
                checkpoints.warn(f"{run} goes on with other code or precision than before: {'; '.join(changed)}.")
            if self.config.get("force") is False:
                self.checkpoint.check_trained()
            self.config.ckpt_path = str(self.checkpoint.path)
        elif self.command in CKPT_HELP:
            self.config.ckpt_path = None
        self.resolved = resolved(self.config, parser)

    def _parse(self, arguments: Arguments, base: dict[str, Any], parser: LightningArgumentParser) -> Namespace:
        return parse(merge(arguments, self.known, base), arguments, self.known, parser)

    def _check_trusted(self, checkpoint: checkpoints.Checkpoint) -> None:
        own = [*(source.data for source in self.arguments.sources), *self.arguments.argv]
        own += [argument.partition("=")[2] for argument in self.arguments.argv]
        content = {"model": checkpoint.hparams, "data": checkpoint.data}
        trust.check_checkpoint(checkpoint.path, content, own, self.arguments.trusted)

    def resolve(self, arguments: Arguments) -> dict[str, Any]:
        """The resolved config of other arguments, by the same parser: building a parser takes longer than using it."""
        return resolved(self._parse(arguments, {}, self.parser), self.parser)

    def _asked(self) -> checkpoints.Asked:
        found = self.resolve(self.arguments)
        return checkpoints.Asked(
            Path(found["run"]["root"]) / (found["run"]["name"] or self._run_name(found["model"])), found
        )

    def instantiate_classes(self) -> None:
        if not self.build:
            return
        with explained():
            super().instantiate_classes()
            data = full_paths(self.config_dump["data"])
            self.datamodule.save_hyperparameters({"data": data}, logger=False)
            if self.checkpoint:
                self.checkpoint.check_data(self.model.hparams)
                if self.command == "fit":
                    self.checkpoint.check_same_data(data, self.data_sha256)

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        config = self.config_init["trainer"]
        callbacks = config["callbacks"] or []
        callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
        no_bar = config["enable_progress_bar"] is False or any(isinstance(c, ProgressBar) for c in callbacks)
        kwargs["callbacks"] = callbacks if no_bar else [*callbacks, EpochProgress()]
        if config["enable_checkpointing"] is None:
            kwargs["enable_checkpointing"] = any(isinstance(callback, ModelCheckpoint) for callback in callbacks)
        if config["logger"] is None:
            kwargs["logger"] = False  # the run's own loggers come with its folder
        try:
            trainer = super().instantiate_trainer(**kwargs)
        except ModuleNotFoundError as error:  # a precision that needs another package
            raise UsageError(str(error)) from error
        check_precision(trainer)
        if str(config["precision"]) in HALF and trainer.precision not in HALF:
            raise UsageError(
                f"trainer.precision {config['precision']} needs a GPU: on a CPU use bf16-mixed, bf16-true or 32."
            )
        if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:  # the user named no other
            trainer.strategy.checkpoint_io = VerifiedCheckpoints()
        return trainer

    def open_run(self, origin: Origin | None = None) -> None:
        """Give the run its folder and loggers; loggers that the user chose stay, and ``false`` means none.

        Args:
            origin: What the run is part of; by default it stands alone.
        """
        config = self.config_init["trainer"]
        if config["fast_dev_run"]:
            return
        os.chdir(self._started_in)  # a plugin's part that leaves it would move the run
        origin = origin or self._own_origin()
        self.datamodule.save_hyperparameters({"sha256": origin.facts["data_sha256"]}, logger=False)
        text, seed = to_yaml(self.resolved), self.config["seed_everything"]
        name = self._run_name(self.resolved["model"])
        try:
            loggers = self.recorder.open(text, hparams(self.resolved), name, seed, origin)
        except ValueError as error:
            raise UsageError(str(error)) from error
        if config["logger"] is not False:
            self.trainer.loggers = [*loggers, *self.trainer.loggers]

    def _own_origin(self) -> Origin:
        facts = {
            "identity": identity(self.resolved, self.data_sha256),
            "data_sha256": self.data_sha256,
            "plugins": [version(plugin) for plugin in self.resolved.get("plugins") or []],
        }
        if self.checkpoint:
            facts["resumed_from"] = str(self.checkpoint.path)
        return Origin(facts)

    @property
    def what(self) -> str:
        """Model and data in words: ``30 layers of GAT on Cora``."""
        layers = self.model.stack.layers
        names = (getattr(self.datamodule, name, None) for name in ("name", "dataset"))
        data = next(filter(None, names), type(self.datamodule).__name__)
        return f"{len(layers)} layer{'s' * (len(layers) > 1)} of {type(layers[0]).__name__} on {data}"

    @cached_property
    def data_sha256(self) -> str:
        """The checksum of the data."""
        return self.datamodule.checksum

    @property
    def recorder(self) -> RunRecorder:
        """The callback that keeps the run's folder."""
        return self.config_init["run"]

    def _run_name(self, model: dict[str, Any]) -> str:
        """The last config file's name, or the parts (``gat_lipschitz_30``); then what flags change: ``-norm_none``."""
        files = [source.name for source in self.arguments.sources if source.is_file]
        parts = [model["layer"], *model["norm"]]
        names = [part if isinstance(part, str) else part.get("name", "own") for part in parts]
        name = Path(files[-1]).stem if files else "_".join([*names, str(model["num_layers"])])
        named: tuple[str, ...] = () if files else ("layer", "norm", "num_layers")
        changed = {}
        for flag, key, value in flags(self.arguments.argv, self.known):
            section, _, option = key.partition(".")
            if section in ("model", "data") and option not in named and key.rpartition(".")[2] not in PATHS:
                text = re.sub(r"[^\w.]+", "_", f"{key.rpartition('.')[2]} {value}").strip("_")
                changed[f"{key} {value}" if flag.endswith("+") else key] = text
        name = "-".join([name, *changed.values()])
        return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}-{digest(name)[:8]}"
