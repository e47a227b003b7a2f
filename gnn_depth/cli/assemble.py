"""Build data, model and trainer from a command line."""

import re
from pathlib import Path
from typing import Any

import lightning as L

import gnn_depth.data
import gnn_depth.diagnostics
import gnn_depth.nn  # noqa: F401  (all three register or define parts that can be named)
from gnn_depth.builder import PartIndex, check, instantiate
from gnn_depth.cli import checkpoints, trust
from gnn_depth.cli.config import (
    SYNONYMS,
    Arguments,
    by_section,
    index_of,
    merge,
    resolved_config,
)
from gnn_depth.data.source import GraphSource
from gnn_depth.runs import digest
from gnn_depth.training.finished import take_weights
from gnn_depth.training.models import build_model, build_module, trainer_objects
from gnn_depth.training.monitors import with_modes
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.run import make_trainer, name_of_parts

MAX_NAME = 100  # characters of a run's name, which is a folder's


def resolve(
    arguments: Arguments, known: PartIndex, base: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The resolved config of arguments: every option with its default, as plain values; what
    watches a metric has the metric's mode."""
    return resolved_config(with_modes(merge(arguments, known, base)), known)


class CommandLineInterface:
    """Data, model and trainer of a command, which decides on the options, and of the arguments
    after it.

    Attributes:
        resolved: The config with every default, as plain values, and the path of the checkpoint
            that was found: what runs.
    """

    datamodule: Any  # a GraphDataModule, or a LightningDataModule of the user's
    model: Any  # a NodeClassifier, or a LightningModule of the user's

    def __init__(self, command: str, arguments: Arguments) -> None:
        self.arguments = arguments
        known = index_of(command, arguments)
        self.checkpoint: checkpoints.Checkpoint | None = None
        asked = arguments.value_of("ckpt_path")
        trains = command == "fit"
        is_own = "model" in known.options  # a class of the user's
        path, base, transforms = None, {}, None
        if asked and is_own:
            path = checkpoints.of_own_module(str(asked), trains)
            base = checkpoints.options_of_run(path)
        elif asked:

            def of_this_name() -> tuple[Path, dict[str, Any]]:
                """The folder of the runs of this name, and the resolved config."""
                found = resolve(arguments, known)
                name = found["run"]["name"] or self.run_name(found["model"])
                return Path(found["run"]["root"]) / name, found

            self.checkpoint = checkpoints.find(str(asked), trains, of_this_name)
        if self.checkpoint:
            path, base = self.checkpoint.path, self.checkpoint.config(with_seed=trains)
            # They are built for the data to predict. The schema's other text is not imported.
            transforms = self.checkpoint.schema and list(self.checkpoint.schema.transforms)
        # The run's model and data stand in for the defaults.
        if base:
            trust.check_run(str(path), {**base, "transforms": transforms}, arguments, known)
        options = with_modes(merge(arguments, known, base))
        if command != "inspect":  # for last, auto and a folder, the file that was found
            options["ckpt_path"] = path and str(path)
        self.resolved = resolved_config(options, known)
        if self.checkpoint:
            # Where a training goes on, also its data and seed.
            sections = base.keys() if trains else ["model"]
            self.checkpoint.check(resolve(Arguments(), known, base), self.resolved, sections)

        # Data and weights draw from the seed in this order: another one would change results.
        seed = self.resolved["seed_everything"]
        self.resolved["seed_everything"] = L.seed_everything(seed, workers=True)
        parts = by_section(options)
        data = parts.get("data") or check("data", known.options["data"].default)
        self.datamodule = instantiate(data)
        if not is_own:  # a class of the user's may have a DataModule of the user's
            self.datamodule = GraphSource.of(self.datamodule)
        if command == "inspect":
            return
        reads = command in ("validate", "test", "predict")
        if reads and self.checkpoint and self.checkpoint.schema is not None:
            # As the model was trained: scalings, categories and classes are the checkpoint's.
            targets = command != "predict"
            self.datamodule = self.datamodule.conform_to(self.checkpoint.schema, targets=targets)
        self.recorder = RunRecorder(**self.resolved["run"])
        if is_own:
            made_by = parts.get("optimizer"), parts.get("lr_scheduler")
            self.model = build_module(parts["model"], self.datamodule, *made_by)
        else:
            self.model = build_model(parts.get("model", {}), self.datamodule)
        if "init_from" in self.resolved:
            take_weights(self.model, self.resolved["init_from"])
        self.trainer = make_trainer(trainer_objects(parts.get("trainer", {})), self.recorder)
        if not self.checkpoint:
            return
        sha256 = None
        if trains:  # other commands may take other data
            sha256 = self.datamodule.checksum
        self.checkpoint.check_data(self.model.hparams, self.resolved["data"], sha256)
        measures = command in ("validate", "test") and self.datamodule.split_is_random
        if measures and self.checkpoint.data_sha256 not in (None, self.datamodule.checksum):
            self.datamodule = self.datamodule.with_all_rows_as_test()
            checkpoints.warn(
                "this is other data than that of the training, and has no split: all rows with a "
                "label or target are measured. If nodes of the training are among them, the score "
                "is too good: give a column with train, val and test (--data.split COLUMN).",
                "",
            )

    def run_name(self, model: dict[str, Any]) -> str:
        """The last config file's name, or the parts (``gat_lipschitz_30``); then what flags change:
        ``-norm_none``."""
        name = name_of_parts(model)
        named: tuple[str, ...] = ("layer", "norm", "num_layers")
        for source in self.arguments.sources:
            if source.is_file:
                name, named = Path(source.name).stem, ()
        changed = {}
        for flag, value in self.arguments.flags:
            key = flag.removesuffix("+")
            top, _, option = key.partition(".")
            last = key.rpartition(".")[2]
            is_shown = key != "model" and top in ("model", "data", *SYNONYMS)
            if is_shown and option not in named and "/" not in str(value):
                if key != flag:  # stands beside what was there, and does not replace it
                    key += f" {value}"
                changed[key] = re.sub(r"[^\w.]+", "_", f"{last} {value}").strip("_")
        name = "-".join([name, *changed.values()])
        if len(name) > MAX_NAME:  # the digest tells apart what is cut off
            name = f"{name[:MAX_NAME]}-{digest(name)[:8]}"
        return name
