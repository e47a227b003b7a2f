"""``gnn_depth.fit``: train a model on data from Python, in one call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import yaml

from gnn_depth.cli.config import GIVEN_BY_DATA, TRAINER_DEFAULTS, build_model, known_to_model
from gnn_depth.cli.config_file import read_config
from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.pyg import PyGData
from gnn_depth.training.checkpoints import VerifiedCheckpoints, read_checkpoint
from gnn_depth.training.divergence import check_parts
from gnn_depth.training.loggers import EpochProgress
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.summary import report


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    Attributes:
        folder: Its folder: config, curves, checkpoints, ``result.json``.
        model: The model, with the weights of the best validation epoch.
        data: The data that it was trained on.
        text: The report, which ``print`` shows.
    """

    folder: Path
    model: NodeClassifier
    data: GraphDataModule
    text: str

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last epoch, and as ``test_acc_at_best_val`` those of the best validation
        epoch."""
        result: dict[str, Any] = json.loads(
            (self.folder / "result.json").read_text(encoding="utf-8")
        )
        return result["metrics"]

    @property
    def curves(self) -> pd.DataFrame:
        """Every metric in every epoch."""
        return pd.read_csv(self.folder / "metrics.csv").groupby("epoch", as_index=False).last()

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the best validation epoch."""
        best = self.folder / "checkpoints" / "best.ckpt"
        return best if best.is_file() else best.with_name("last.ckpt")

    def __str__(self) -> str:
        return self.text


def fit(
    model: NodeClassifier | Mapping[str, Any] | str | Path,
    data: Any,
    epochs: int | None = None,
    seed: int = 0,
    split: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    root: str = "runs",
    callbacks: Sequence[L.Callback] = (),
    **trainer: Any,
) -> Run:
    """Train a model, and return the run.

    .. code-block:: python

        run = gnn_depth.fit({"layer": "gat", "norm": "pair", "num_layers": 8}, data, epochs=100)
        print(run)
        run.curves.plot("epoch", ["train/loss", "val/loss"])

    Args:
        model: Options of the model, as in the ``model`` section of a config; a config file, or the
            name of a shipped one, of which the sections ``model`` and ``trainer`` are used; or a
            :class:`NodeClassifier`.
        data: A ``Data`` of PyTorch Geometric, several of them, or a data set of this package.
        epochs: Number of epochs; by default that of the config file, otherwise 200.
        seed: Determines the weights, dropout, and a random split.
        split: Numbers of the nodes or graphs to ``train``, ``val`` and ``test`` on; by default
            masks of the data, or a random split.
        batch_size: Graphs in a training batch, where each graph has a target; by default all.
        root: Folder of all runs.
        callbacks: Further callbacks, such as those of ``gnn_depth.diagnostics``.
        **trainer: Options of Lightning's ``Trainer``.

    Raises:
        ValueError: The data is inconsistent, or an option does not exist or does not fit.
        UsageError: The config file does not exist or cannot be read.
    """
    if not isinstance(data, GraphDataModule):
        data = PyGData(data, split, batch_size=batch_size, seed=seed)
    elif split is not None or batch_size is not None:
        raise ValueError(
            f"split and batch_size are for Data objects: {type(data).__name__} has its own."
        )
    content: dict[str, Any] = (
        read_config(str(model)).data if isinstance(model, str | Path) else {"model": model}
    )
    of_file = dict(content.get("trainer") or {})
    if of_file.pop("callbacks", None):
        raise ValueError(
            "the callbacks of a config file are not read here: give them as callbacks=[...]."
        )
    L.seed_everything(seed, verbose=False)
    if isinstance(model, NodeClassifier):
        built = model
    else:
        options = content.get("model") or {}
        if taken := sorted(set(options) & set(GIVEN_BY_DATA)):
            raise ValueError(f"{taken[0]} is taken from the data: leave it out.")
        built = build_model(options, known_to_model(data), is_complete=False)
    check_parts(built.stack, built.hparams["in_channels"])
    recorder = RunRecorder(root)
    settings = {**TRAINER_DEFAULTS, "enable_checkpointing": False, **of_file, **trainer}
    if epochs is not None:
        settings["max_epochs"] = epochs
    hparams = {f"model.{name}": str(value) for name, value in built.hparams.items()}
    text = yaml.safe_dump({"model": dict(built.hparams), "seed_everything": seed}, sort_keys=False)
    loggers = recorder.open(text, hparams, type(built.stack.layers[0]).__name__.lower(), seed)
    shown = [EpochProgress()] if settings.get("enable_progress_bar", True) else []
    runner = L.Trainer(
        callbacks=[recorder, *shown, *callbacks],
        logger=loggers,
        plugins=[VerifiedCheckpoints()],
        **settings,
    )
    runner.fit(built, datamodule=data)
    assert recorder.folder is not None
    run = Run(recorder.folder, built, data, report(recorder, built))
    built.load_state_dict(read_checkpoint(run.checkpoint)["state_dict"])
    return run
