"""Data, model and trainer as a command line says."""

import re
from pathlib import Path
from typing import Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from gnn_depth.cli import checkpoints, predictions
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.hparams import hparams
from gnn_depth.cli.identity import identity
from gnn_depth.cli.parser import Parser
from gnn_depth.cli.sections import full_paths
from gnn_depth.cli.words import CommandLine
from gnn_depth.data.base import GraphDataModule
from gnn_depth.runs import Origin
from gnn_depth.short_names import contract
from gnn_depth.training import NodeClassifier
from gnn_depth.training.progress import EpochProgress
from gnn_depth.training.recorder import RunRecorder

MAX_SEED = 2**32 - 1  # NumPy's
DEFAULT_DATA = "gnn_depth.data.synthetic.SyntheticCitation"
LINKS = {"num_features": "in_channels", "num_classes": "num_classes", "task": "task"}
TRAINER_DEFAULTS = {
    "max_epochs": 200,
    "log_every_n_steps": 1,  # Lightning's 50 shows one point of fifty: a full batch is one step an epoch
    "num_sanity_val_steps": 0,  # would be the same forward pass as the first epoch's validation
    "enable_model_summary": False,  # of one stack and three empty metrics; the report has the number of parameters
    "use_distributed_sampler": False,  # it would shuffle, and pad the test set
}
CKPT_HELP = {
    "fit": "Checkpoint of an interrupted run to go on from: FOLDER/checkpoints/last.ckpt.",
    "validate": "Checkpoint to validate; without one the untrained model is validated.",
    "test": "Checkpoint to test, such as FOLDER/checkpoints/best.ckpt of a run's folder.",
    "predict": "Checkpoint to predict with, such as FOLDER/checkpoints/best.ckpt of a run's folder.",
    "probe": "Checkpoint to probe; without one the untrained model is probed.",
}


class CommandLineInterface(LightningCLI):
    """Assemble data, model and trainer as a command line says.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``: it decides which options there are.
        line: The words after it.
        build: Whether anything is built, or only parsed.

    Raises:
        UsageError: Something that was asked for does not exist or does not fit.
    """

    def __init__(self, command: str, line: CommandLine, build: bool = True) -> None:
        self.command = command
        self.line = line
        self.build = build
        self.checkpoint: checkpoints.Checkpoint | None = None
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
            },
            subclass_mode_data=True,
            args=line.for_parser(),
            run=False,
            auto_configure_optimizers=False,
        )

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument(
            "--seed_everything", type=int, default=0, help="Seed of everything that is random: weights, dropout."
        )
        parser.add_argument(
            "--plugins",
            type=list[str],
            default=[],
            help="Python files or modules that register parts, imported before anything is looked up; may be repeated. "
            "Paths count from the working directory, in a config file from that file's folder.",
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.set_defaults({"data": {"class_path": DEFAULT_DATA}})
        for source, target in LINKS.items():
            parser.link_arguments(f"data.{source}", f"model.{target}", apply_on="instantiate")
        parser.add_lightning_class_args(RunRecorder, "run")
        parser.add_argument("--ckpt_path", type=str | None, default=None, help=CKPT_HELP[self.command])
        if self.command == "predict":
            parser.add_argument(
                "--output",
                type=str | None,
                default=None,
                help=f"File to write every node's class probabilities to; {predictions.SUFFIXES_TEXT} by its suffix.",
            )
        if self.command == "probe":
            scales = "Factors of each layer's input, to measure its Lipschitz constant there too."
            parser.add_argument("--scales", type=float, nargs="+", default=[], help=scales)
        assert isinstance(parser, Parser)
        parser.name_parts_in_help()
        parser.configs = self.line.configs

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse; with a checkpoint, its model and data stand in for the defaults, and a contradiction is an error."""
        if name := self.line.value_of("ckpt_path"):
            self.checkpoint = checkpoints.read(str(name))
            if self.command == "fit":
                self.checkpoint.check_resumable()
            self.config = checkpoints.parse(self.checkpoint, parser, args, same_data=self.command == "fit")
        else:
            self.config = parser.parse_args(args)
            if self.command in ("test", "predict"):
                raise UsageError(
                    f"{self.command} needs a trained model: name one with --ckpt_path FILE. "
                    "A fit leaves it in its run's folder, as checkpoints/best.ckpt."
                )
        seed = self.config.seed_everything
        if seed is not None and not 0 <= seed <= MAX_SEED:
            raise UsageError(f"seed_everything is from 0 to {MAX_SEED}, not {seed}.")
        if self.command == "predict":
            predictions.check(self.config.output)

    def instantiate_classes(self) -> None:
        if not self.build:
            return
        try:
            super().instantiate_classes()
            self.datamodule.save_hyperparameters({"data": full_paths(self.config_dump["data"])}, logger=False)
            if self.checkpoint:
                self.checkpoint.check_data(self.model.hparams)
        except (ValueError, MisconfigurationException) as error:
            said = innermost(error)
            if not isinstance(said, ValueError | MisconfigurationException):
                raise  # a bug that the parser has wrapped
            raise UsageError(str(said)) from error
        except RuntimeError as error:
            twice = re.match(r"Found more than one stateful callback of type `(\w+)`", str(error))
            if not twice:
                raise
            raise UsageError(f"trainer.callbacks has {twice[1]} more than once: take one of them.") from error

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
        return super().instantiate_trainer(**kwargs)

    def open_run(self, origin: Origin | None = None) -> None:
        """Give the run its folder and loggers; those that the user named stay, and none come if they said false.

        Args:
            origin: What the run is part of; by default it stands alone.

        Raises:
            UsageError: The folder cannot be made or written.
        """
        config = self.config_init["trainer"]
        if config["fast_dev_run"]:
            return
        text, seed = self.parser.dump(self.config, skip_unset=False), self.config["seed_everything"]
        try:
            loggers = self.recorder.open(
                text, hparams(self.config_dump), self._run_name(), seed, origin or self._own_origin()
            )
        except ValueError as error:
            raise UsageError(str(error)) from error
        if config["logger"] is not False:
            self.trainer.loggers = [*loggers, *self.trainer.loggers]

    def _own_origin(self) -> Origin:
        data_sha256 = self.datamodule.checksum
        return Origin({"identity": identity(self.config_dump, data_sha256), "data_sha256": data_sha256})

    @property
    def recorder(self) -> RunRecorder:
        """The callback that keeps the run's folder."""
        return self.config_init["run"]

    def _run_name(self) -> str:
        """The last config file's name; without one, the parts: ``gat_lipschitz_30``."""
        files = [config.source for config in self.line.configs if config.is_file]
        if files:
            return Path(files[-1]).stem
        model = self.config_dump["model"]
        parts = [contract("layer", model["layer"]), *contract("norm", model["norm"])]
        names = [part if isinstance(part, str) else part.get("name", "own") for part in parts]
        return "_".join([*names, str(model["num_layers"])])


def innermost(error: BaseException) -> BaseException:
    """What a constructor said, below what the parser says around it."""
    while error.__cause__ is not None and "Subtypes: [" in str(error):
        error = error.__cause__
    return error
