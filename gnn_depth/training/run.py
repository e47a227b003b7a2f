"""One run: check everything, make the run's folder, train, and report.

:func:`run` is the one way to train: the command ``gnn-depth fit``, :func:`gnn_depth.fit` and the
workers of a sweep call it.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any
from uuid import uuid4

import lightning as L
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    LearningRateFinder,
    ModelCheckpoint,
    ModelPruning,
    ProgressBar,
    StochasticWeightAveraging,
)
from lightning.pytorch.utilities import rank_zero_only, rank_zero_warn
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import nn

from gnn_depth import registry
from gnn_depth.builder import (
    build,
    is_plain_value,
    options_to_config,
)
from gnn_depth.config_file import Source, read_config
from gnn_depth.data.base import GraphDataModule, NodeDataModule, fingerprint
from gnn_depth.data.source import GraphSource
from gnn_depth.data.transforms import generators_kept
from gnn_depth.nn import native
from gnn_depth.part_specs import SCALAR, items_of, load_class, options_of
from gnn_depth.runs import Origin
from gnn_depth.training.checkpoints import VerifiedCheckpoints
from gnn_depth.training.divergence import check_parts
from gnn_depth.training.finished import Run, take_weights
from gnn_depth.training.identity import code_of_parts, identity, plugin_versions
from gnn_depth.training.linear_model import linear_metrics
from gnn_depth.training.loggers import EpochProgress, quiet
from gnn_depth.training.models import (
    build_model,
    model_options,
    select_section,
    trainer_objects,
    trainer_options,
)
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.own_model import ModuleClassifier
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.summary import report

log = logging.getLogger(__name__)

#: The sections of a config file that :func:`fit` uses; the others are its own arguments.
OF_FILE = ("model", "trainer", "plugins", "seed_everything")
# Names that end so are files, not data sets; tables are answered with their way in.
OF_FILES = (".npz", ".pt", ".csv", ".tsv", ".txt", ".parquet")
HALF = ("16", "16-mixed", "16-true")  # on a CPU Lightning would use bf16-mixed in their place
DEEP = 8  # layers from which on the report says from how far nodes read


#: Callbacks that cannot work here, and why.
REFUSED: dict[type[L.Callback], str] = {
    ModelPruning: "renames parameters, so the weights of the best epoch could not be saved. "
    "Prune a trained model in a program of your own, with torch.nn.utils.prune.",
    StochasticWeightAveraging: "makes its average after the last validation, so no metric would "
    "be of it: WeightAveraging and EMAWeightAveraging validate theirs.",
    LearningRateFinder: "sets an attribute lr of the model; here the rate is the optimizer's: "
    "compare values of model.optimizer.lr in a sweep.",
}


def make_trainer(options: Mapping[str, Any], recorder: RunRecorder | None = None) -> L.Trainer:
    """Make Lightning's trainer, with this package's progress lines and checkpoints.

    Args:
        options: Options of the trainer (see ``gnn_depth.training.models.trainer_objects``);
            callbacks and loggers are objects.
        recorder: The recorder of a training.

    Raises:
        MisconfigurationException: The precision does not work here.
    """
    settings = dict(options)
    callbacks: list[L.Callback] = items_of(settings.pop("callbacks", None) or [])
    if settings.get("enable_checkpointing") is None:
        settings["enable_checkpointing"] = any(isinstance(c, ModelCheckpoint) for c in callbacks)
    if settings.get("logger") is None:
        settings["logger"] = False  # the run's own loggers come with its folder
    has_bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    if settings.get("enable_progress_bar") is not False and not has_bar:
        callbacks.append(EpochProgress())
    if recorder is not None:
        callbacks.append(recorder)

    trainer = L.Trainer(**settings, callbacks=callbacks)
    asked = str(settings.get("precision"))
    if asked in HALF and trainer.precision != "16-mixed":
        raise MisconfigurationException(
            f"trainer.precision {asked}: 16-mixed needs a GPU, and 16-true has too small a range "
            "for the gradients of deep stacks: use bf16-mixed, bf16-true or 32."
        )
    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:  # the user named no other
        trainer.strategy.checkpoint_io = VerifiedCheckpoints()
    return trainer


def check_training(options: Mapping[str, Any], model: NodeClassifier) -> None:
    """Refuse a training that has no steps or no end, or whose optimizer or schedule fails.

    Args:
        options: Options of the trainer.
        model: The model.

    Raises:
        MisconfigurationException: One of these holds; the message says which option to change.
    """
    for name in ("max_epochs", "max_steps", "limit_train_batches"):
        if options.get(name) == 0:
            raise MisconfigurationException(f"nothing would be trained: trainer.{name} is 0.")
    model.configure_optimizers()  # fails now rather than in the run


def title(model: L.LightningModule, data: L.LightningDataModule) -> str:
    """A title for a model and its data: ``30 layers of GAT on Cora``."""
    name = getattr(data, "name", None) or getattr(data, "dataset", None) or type(data).__name__
    if not isinstance(model, NodeClassifier):
        return f"{type(model).__name__} on {name}"
    layers = model.stack.layers
    return f"{len(layers)} layers of {type(layers[0]).__name__} on {name}"


def run(
    model: Any,
    data: Any,
    trainer: L.Trainer,
    recorder: RunRecorder,
    resolved: dict[str, Any],
    name: str,
    checkpoint: Path | None = None,
    origin: Origin | None = None,
) -> Run:
    """Train a model on data: check everything, make the run's folder, train, and report.

    Nothing is written before all checks have passed. Afterwards the model has the weights of the
    best epoch.

    Args:
        model: The model, with its initial weights: a :class:`NodeClassifier`, or any
            LightningModule that takes the batches of the data; it is trained without checks.
        data: A :class:`GraphDataModule`; for a model of the user's, any LightningDataModule.
        trainer: Made by :func:`make_trainer` with this recorder. Loggers that the user chose are
            kept; with ``trainer.logger`` false there are none.
        recorder: The callback that keeps the run's folder.
        resolved: The config with every default, as plain values: its sections ``model``, ``data``,
            ``trainer``, ``run`` and so on.
        name: The run's name, if its recorder has none.
        checkpoint: The checkpoint from which the training resumes, if any.
        origin: The sweep that the run belongs to, if any.

    Raises:
        ValueError: Something that was asked for does not fit.
        MisconfigurationException: Options of the trainer do not fit.
        Diverged: The loss became NaN or infinite; the run's folder says so too.
    """
    is_own = not isinstance(model, NodeClassifier)
    if not is_own:
        check_parts(model.stack, model.hparams["in_channels"])
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            for cls, why in REFUSED.items():
                if isinstance(callback, cls):
                    raise MisconfigurationException(f"{cls.__name__} {why}")
        check_training(resolved["trainer"], model)
        # Its batches depend on the number of processes.
        data.trainer = trainer
        batches = data.train_dataloader()  # raises if they cannot be divided among the processes
        if trainer.world_size > 1 and getattr(batches, "shared", False):
            rank_zero_warn(
                "every process trains on the whole graph: several are no faster than one."
            )
    elif not is_overridden("configure_optimizers", model):
        raise MisconfigurationException(
            f"{type(model).__name__} needs an optimizer: --optimizer Adam."
        )
    plugins, resumes = plugin_versions(resolved), None
    heading, sha256 = title(model, data), None  # that of a DataModule of the user's is unknown
    if isinstance(data, GraphDataModule):
        heading, sha256 = f"{heading}\n  {data.about}", data.checksum
        # Every checkpoint records which data its model was trained on, and with which plugins.
        of_data = {"sha256": sha256, "plugins": plugins}
        if not resolved["data"].get("given_in_python"):
            of_data["data"] = resolved["data"]
        data.save_hyperparameters(of_data, logger=False)
    if origin is None:  # the run stands alone
        origin = Origin({"identity": identity(resolved, sha256), "data_sha256": sha256})
    origin.facts.update(plugins=plugins, code=code_of_parts(resolved))
    if checkpoint is not None:
        origin.facts["resumed_from"] = str(checkpoint)
        resumes = checkpoint.resolve().parents[1]
    loggers = recorder.open(resolved, name, origin, resumes)
    if resolved["trainer"].get("logger") is not False:
        trainer.loggers = [*loggers, *trainer.loggers]
    if trainer.progress_bar_callback is not None:
        rank_zero_only(print)(heading, file=sys.stderr)

    # VerifiedCheckpoints, too, reads checkpoints as data only: no code in them is run.
    before = native.use(True)  # a training that is resumed may use what it began with instead
    try:
        trainer.fit(model, datamodule=data, ckpt_path=checkpoint, weights_only=True)
    finally:
        native.use(before)
    if is_own:
        return Run(recorder.folder, model, data)
    if recorder.best.weights:
        model.load_state_dict(recorder.best.weights)  # those of the last epoch may be worse

    def make_report() -> str:
        # What costs seconds is not done in each of several processes, or after the data changed.
        if trainer.world_size > 1 or data.checksum != sha256:
            return report(recorder, model, {})
        linear: dict[str, float] = {}
        try:
            linear = linear_metrics(model.task, data)
        except Exception as error:  # a task of the user's, for example
            log.warning("there is no linear model to compare with: %s", error)
        return report(recorder, model, linear) + reading(finished)

    finished = Run(recorder.folder, model, data, cache(make_report))
    return finished


def reading(finished: Run) -> str:
    """How many hops away the nodes of a deep model read, as a line; empty if it has no range."""
    layers = len(finished.model.stack.layers)
    if layers < DEEP:
        return ""
    try:
        found = finished.range(nodes=16, largest=True)
    except ValueError:  # targets of graphs, integer features or mini-batches
        return ""
    hops = found.hops_within(0.9)
    if hops is None:
        return ""
    folder = os.path.relpath(str(finished.folder))
    return (
        f"\n90% of the influence on {len(found.nodes)} test nodes comes from nodes up to distance "
        f"{hops}; the model has {layers} layers. More: gnn-depth range {folder}"
    )


@generators_kept()
def fit(
    model: nn.Module | Mapping[str, Any] | str | Path,
    data: Any,
    epochs: int | None = None,
    seed: int | None = None,
    split: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    root: str = "runs",
    name: str | None = None,
    callbacks: Sequence[L.Callback | str | Mapping[str, Any]] = (),
    progress: bool = True,
    init_from: str | Path | None = None,
    **trainer: Any,
) -> Run:
    """Train a model, and return the run, whose model has the weights of the best epoch.

    .. code-block:: python

        run = gnn_depth.fit({"layer": "gat", "norm": "pair", "num_layers": 8}, data, epochs=100)
        print(run)
        run.curves.plot("epoch", ["train/loss", "val/loss"])

    Args:
        model: Options of the model, as in the ``model`` section of a config; a config file, or the
            name of a shipped one; a :class:`NodeClassifier`; or any module of ``model(x,
            edge_index)``, such as PyTorch Geometric's ``GraphSAGE``. Of a config file the sections
            ``model``, ``trainer`` and ``plugins`` and the seed are used; a warning names others.
        data: A ``Data`` of PyTorch Geometric, several of them, or a data set of this package.
        epochs: Number of epochs; by default that of the config file, otherwise 200.
        seed: Determines the weights, dropout, and a random split; by default that of the config
            file, otherwise 0.
        split: Indices of the nodes or graphs to ``train``, ``val`` and ``test`` on; by default
            the masks of the data, or a random split.
        batch_size: Graphs in a training batch, where each graph has a target; by default all.
        root: Folder of all runs.
        name: Name of the run, a folder below root; by default the name of the config file, or the
            parts, as in ``gat_pair_8``.
        callbacks: Further callbacks, such as those of ``gnn_depth.diagnostics``.
        progress: Print a line every tenth of the epochs; false prints nothing.
        init_from: Folder of a run: the training begins with its weights, where name and shape fit
            this model. The others are logged.
        **trainer: Options of Lightning's ``Trainer``.

    Raises:
        ValueError: The data is inconsistent, or an option does not exist or does not fit.
    """
    source = Source("", {"model": model})
    if isinstance(model, str | Path):
        source = read_config(str(model))
        name = name or Path(source.name).stem
        model = source.data.get("model") or {}
        unused = ", ".join(section for section in source.data if section not in OF_FILE)
        if unused:
            log.warning(
                "%s: fit leaves out these sections: %s. The data and the run's folder are its "
                "arguments; gnn-depth fit --config uses all of the file.",
                source.name,
                unused,
            )
    for plugin in source.plugins:
        registry.load_plugin(plugin)
    # Data that draws random numbers draws the same ones as in the command, which seeds first.
    if seed is None:
        seed = source.data.get("seed_everything") or 0
    seed = L.seed_everything(seed, verbose=False)
    given = {**(source.data.get("trainer") or {}), **trainer}
    given["callbacks"] = [*items_of(given.get("callbacks") or []), *callbacks]
    if not progress:
        given["enable_progress_bar"] = False
    if epochs is not None:
        given["max_epochs"] = epochs

    # Everything that can be wrong with the options is found before data is read, which may take
    # long.
    selected = select_section("trainer", given)
    of_trainer = options_to_config(trainer_options(), selected)
    recorder = RunRecorder(root, name)  # before a part is built, which may leave the folder
    parts: dict[str, Any] = {}
    if not isinstance(model, nn.Module):
        parts = select_section("model", model, of_trainer["max_epochs"])
    is_config = isinstance(data, Mapping) and "class_path" in data  # others are arrays by name
    if is_config or (isinstance(data, str) and not data.endswith(OF_FILES)):
        data = build("data", data)
    module = GraphSource.of(data, split, batch_size, seed)
    if isinstance(model, nn.Module) and not isinstance(model, NodeClassifier):
        model = ModuleClassifier(
            model, module.num_features, module.num_classes, default_task=module.task
        )
    if isinstance(model, NodeClassifier):
        kept = dict(model.hparams)
        if isinstance(model, ModuleClassifier):
            kept = {"module": model.stack.module, "num_layers": len(model.stack.layers)}
        # No config can build this model: its run is unique.
        of_model = {
            **kept,
            "optimizer": model.optimizer,
            "scheduler": model.scheduler,
            "given_in_python": uuid4().hex[:12],
        }
    else:
        of_model = options_to_config(model_options(), parts)
        model = build_model(parts, module)
    resolved = {
        "seed_everything": seed,
        "plugins": source.plugins,
        "trainer": _plain(of_trainer),
        "model": _plain(of_model),
        "data": _described(module),
        "run": {"root": root, "name": name},
    }
    if init_from is not None:
        take_weights(model, init_from)
        resolved["init_from"] = str(init_from)
    with quiet():
        made = make_trainer(trainer_objects(selected), recorder)
        run_name = name_of_parts(resolved["model"])
        finished = run(model, module, made, recorder, resolved, run_name)
    model.eval()
    return finished


def name_of_parts(model: Mapping[str, Any]) -> str:
    """The name of a run without a config file: its parts, as in ``gat_pair_8``.

    Args:
        model: The section ``model`` of its config.
    """
    if "class_path" in model:
        return str(model["class_path"]).rpartition(".")[2]
    words = []
    for part in [model.get("layer"), *(model.get("norm") or [])]:
        name = part
        if isinstance(part, Mapping):
            name = part.get("name")
        words.append(str(name or "own"))  # a user's class has no registered name
    return "_".join([*words, str(model["num_layers"])])


def _plain(value: Any) -> Any:
    """A value as a config writes it."""
    return json.loads(json.dumps(value, default=_of_object))


def _of_object(value: Any) -> Any:
    """An object as a config describes it: by its class and its plain state."""
    if isinstance(value, Path | timedelta):
        return str(value)
    if isinstance(value, partial):
        return {**_of_object(value.func), "init_args": value.keywords}
    if isinstance(value, type | FunctionType):
        path = registry.import_path(value)
        if load_class(path) is value:
            return {"class_path": path}
        # Functions of one name may differ, above all lambdas, and classes inside functions.
        return {"class_path": path, "given_in_python": uuid4().hex[:12]}
    state = dict(sorted(getattr(value, "__dict__", {}).items()))
    state = {name: item for name, item in state.items() if isinstance(item, SCALAR)}
    path = registry.import_path(type(value))
    return {"class_path": path, "init_args": state, "given_in_python": True}


def _described(data: GraphDataModule) -> dict[str, Any]:
    """The section ``data`` of a config for a data set that was built in Python."""
    cls = type(data)
    found = registry.name_of(cls)
    options = {}
    for name in options_of(cls)[0]:
        value = getattr(data, name, data)
        if is_plain_value(value):
            options[name] = value
        else:  # an object, or no attribute of the data set: a config cannot build it again
            found = None
    if found is not None:
        return {"class_path": cls.__name__, "init_args": options}
    content = data.checksum
    if isinstance(data, NodeDataModule):
        # Of features and edges: equal for runs on one graph with different splits.
        graph = data.loaded.graph
        content = fingerprint(data.loaded.x, graph.source, graph.target)
    path = registry.import_path(cls)
    return {"class_path": path, "init_args": options, "given_in_python": content[:12]}
