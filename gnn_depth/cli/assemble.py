"""Build data, model and trainer from a command line."""

import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import lightning as L
from jsonargparse import Namespace
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import ModelCheckpoint, ProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

import gnn_depth.diagnostics  # noqa: F401  (the parser finds imported callbacks by class name)
from gnn_depth.cli import checkpoints, trust
from gnn_depth.cli.config import (
    GIVEN_BY_DATA,
    PATHS,
    TRAINER_DEFAULTS,
    Arguments,
    flags,
    full_paths,
    merge,
    parse,
    resolved,
    to_yaml,
    value_of,
)
from gnn_depth.cli.errors import UsageError, explained
from gnn_depth.cli.identity import hparams, identity, version
from gnn_depth.cli.known import Known, options_of
from gnn_depth.cli.outputs import PREDICTIONS_TEXT
from gnn_depth.data.base import GraphDataModule
from gnn_depth.ranges import Count, Positive, Range
from gnn_depth.runs import Origin, digest
from gnn_depth.short_names import imported_parts
from gnn_depth.training import NodeClassifier
from gnn_depth.training.checkpoints import VerifiedCheckpoints
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.module import check_precision
from gnn_depth.training.monitors import with_modes
from gnn_depth.training.recorder import RunRecorder

MAX_NAME = 100  # characters of a run's name, which is a folder's
SEED = Annotated[int, Range(0, 2**32 - 1)]  # NumPy's
DEFAULT_DATA = "gnn_depth.data.synthetic.SyntheticCitation"
HALF = (
    "16",
    "16-mixed",
)  # Lightning would take bf16-mixed on a CPU, and the config would say another
CKPT_HELP = (
    "Checkpoint: a file, a run folder, or `last`, the newest run of this name; validate and probe "
    "do without. fit "
    "resumes from it in a new folder, and takes `auto` too: the newest run with the same model, "
    "data, seed and code."
)


class Parser(LightningArgumentParser):
    """Lightning's parser without reading of files, which :mod:`gnn_depth.cli.config` has already
    done."""

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        return super().add_class_arguments(*args, **kwargs | {"sub_configs": False})


class CommandLineInterface(LightningCLI):
    """Data, model and trainer of a command, which decides on the options, and of the arguments
    after it.

    Without ``build`` nothing is built, only parsed.
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
                "dump_header": None,
                "exit_on_error": False,
            },
            subclass_mode_data=True,
            args=arguments.argv,
            run=False,
            auto_configure_optimizers=False,
        )

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument(
            "--seed_everything", type=SEED, default=0, help="Seed of all random numbers."
        )
        plugins = (
            "Python files or modules that register parts, imported first; may be repeated. "
            "Paths count from the working directory, in a config file from that file's folder."
        )
        parser.add_argument("--plugins", type=list[str], default=[], help=plugins)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.set_defaults({"data": {"class_path": DEFAULT_DATA}})
        for option, attribute in GIVEN_BY_DATA.items():
            parser.link_arguments(f"data.{attribute}", f"model.{option}", apply_on="instantiate")
        parser.add_lightning_class_args(RunRecorder, "run")
        if self.command != "partition":
            parser.add_argument("--ckpt_path", type=str | None, default=None, help=CKPT_HELP)
        if self.command in ("validate", "test", "predict"):
            parser.add_argument(
                "--force",
                action="store_true",
                help="Use a checkpoint of a model that has diverged.",
            )
        if self.command == "predict":
            output = f"File for the predictions; {PREDICTIONS_TEXT} by its suffix."
            parser.add_argument("--output", type=str | None, default=None, help=output)
        if self.command == "partition":
            parser.add_argument("--parts", type=Count, default=2, help="Number of parts.")
            nodes = "Division of the nodes: contiguous, metis, or a .npy file with the part of each node."
            parser.add_argument("--nodes", type=str, default="contiguous", help=nodes)
            parser.add_argument(
                "--output", type=str | None, default=None, help="A new folder for the files."
            )
        if self.command == "probe":
            scales = "Factors by which to scale each layer's input for further measurements of its Lipschitz constant."
            parser.add_argument("--scales", type=Positive, nargs="+", default=[], help=scales)
            layers = "Layers to show in the table, `some` or `all`; every layer is measured."
            parser.add_argument(
                "--layers", type=Literal["some", "all"], default="some", help=layers
            )
            page = "File for a web page with charts of every measure: FILE.html."
            parser.add_argument("--html", type=str | None, default=None, help=page)
            trials = "Probe the model with each proposed remedy too, and compare."
            parser.add_argument("--try", action="store_true", help=trials)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Merge and parse; a checkpoint's model and data stand in for the defaults, and a
        contradiction is an error."""
        self.known = Known(imported_parts(), options_of(parser), self.arguments.plugins)
        if self.arguments.prints_config:
            print(to_yaml(self.resolve(self.arguments)), end="")
            sys.exit(0)
        self.ckpt_path_asked = value_of("ckpt_path", self.arguments, self.known)
        trains, base = self.command == "fit", {}
        if self.ckpt_path_asked:
            self.checkpoint = checkpoints.find(str(self.ckpt_path_asked), trains, self._asked)
        if self.checkpoint:
            trust.check_checkpoint(self.checkpoint, self.arguments)
            base = self.checkpoint.config(with_seed=trains)
        self.config = self._parse(self.arguments, base, parser)
        if self.command != "partition":
            self.config.ckpt_path = str(self.checkpoint.path) if self.checkpoint else None
        self.resolved = resolved(self.config, parser)
        if self.checkpoint:
            before = resolved(self._parse(Arguments(), base, parser), parser)
            self.checkpoint.check_config(before, self.resolved, goes_on=trains)
            run = self.checkpoint.path.parent.parent
            changed = checkpoints.changes(run, self.resolved, trains)
            if changed:
                verb = "goes on" if trains else "is used"
                checkpoints.warn(
                    f"{run} {verb} with other code or precision than before: {'; '.join(changed)}."
                )
            if self.config.get("force") is False:
                self.checkpoint.check_trained()

    def _parse(
        self, arguments: Arguments, base: dict[str, Any], parser: LightningArgumentParser
    ) -> Namespace:
        options = merge(arguments, self.known, base)
        with explained():
            for key in ("trainer.callbacks", "model.scheduler"):
                if key in options:
                    options[key] = with_modes(options[key])
        return parse(options, arguments, self.known, parser)

    def resolve(self, arguments: Arguments) -> dict[str, Any]:
        """The resolved config of other arguments, by the same parser: building a parser takes
        longer than using it."""
        return resolved(self._parse(arguments, {}, self.parser), self.parser)

    def _asked(self) -> tuple[Path, dict[str, Any]]:
        """The folder of the runs of this name, and the resolved config."""
        found = self.resolve(self.arguments)
        return Path(found["run"]["root"]) / (
            found["run"]["name"] or self._run_name(found["model"])
        ), found

    def instantiate_classes(self) -> None:
        if not self.build:
            return
        with explained():
            super().instantiate_classes()
            data = full_paths(self.config_dump["data"])
            self.datamodule.save_hyperparameters({"data": data}, logger=False)
            if self.checkpoint:
                sha256 = self.data_sha256 if self.command == "fit" else None
                self.checkpoint.check_data(self.model.hparams, data, sha256)

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        config = self.config_init["trainer"]
        callbacks = config["callbacks"] or []
        callbacks = callbacks if isinstance(callbacks, list) else [callbacks]
        no_bar = config["enable_progress_bar"] is False or any(
            isinstance(c, ProgressBar) for c in callbacks
        )
        kwargs["callbacks"] = callbacks if no_bar else [*callbacks, EpochProgress()]
        if config["enable_checkpointing"] is None:
            kwargs["enable_checkpointing"] = any(
                isinstance(callback, ModelCheckpoint) for callback in callbacks
            )
        if config["logger"] is None:
            kwargs["logger"] = False  # the run's own loggers come with its folder
        trainer = super().instantiate_trainer(**kwargs)
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

    @property
    def recorder(self) -> RunRecorder:
        """The callback that keeps the run's folder."""
        return self.config_init["run"]

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
            section, _, option = key.partition(".")
            if (
                section in ("model", "data")
                and option not in named
                and key.rpartition(".")[2] not in PATHS
            ):
                text = re.sub(r"[^\w.]+", "_", f"{key.rpartition('.')[2]} {value}").strip("_")
                changed[f"{key} {value}" if flag.endswith("+") else key] = text
        name = "-".join([name, *changed.values()])
        return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}-{digest(name)[:8]}"
