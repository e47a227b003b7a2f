"""A finished run: its folder, and what can be done with its model."""

import io
import logging
import textwrap
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth import registry
from gnn_depth.builder import build
from gnn_depth.data.base import GraphDataModule
from gnn_depth.data.schema import Unknown
from gnn_depth.diagnostics.jacobian import Influence, influence
from gnn_depth.registry import first_of, hint
from gnn_depth.runs import from_here, read_result, single_run
from gnn_depth.training.checkpoints import read_checkpoint
from gnn_depth.training.export import export_model
from gnn_depth.training.loggers import in_digits
from gnn_depth.training.module import NodeClassifier
from gnn_depth.training.prediction import load_model, predictions_of
from gnn_depth.yaml_limits import safe_load

log = logging.getLogger(__name__)
MOST_METRICS = 20  # of a run that is shown


class Run:
    """A finished run, as :func:`gnn_depth.fit` and :func:`gnn_depth.load` return it.

    .. code-block:: python

        run = gnn_depth.load("runs/gat_pair_8")
        run.predict(Tables("nodes_of_june.csv", "edges.csv")).to_csv("june.csv")
        run.export("model.pt2")

    Args:
        folder: Its folder: config, curves, checkpoints, ``result.json``.
        model: The model; by default that of the best validation epoch, read from the folder.
        data: The data that it was trained on; by default built from the config.
        report: Makes the report of the training, which ``print`` shows.
    """

    def __init__(
        self,
        folder: Path,
        model: NodeClassifier | None = None,
        data: GraphDataModule | None = None,
        report: Callable[[], str] | None = None,
    ) -> None:
        self.folder = folder
        self._report = report
        # These take the place of the properties below, which would read the folder.
        if model is not None:
            self.model = model
        if data is not None:
            self.data = data

    @cached_property
    def model(self) -> NodeClassifier:
        """The model of the best validation epoch, in evaluation mode.

        ``run.model(x, edge_index)`` gives its outputs for features as it gets them: scaled, if the
        data is; :meth:`predict` takes them as they are in the files.
        """
        # Its parts have to be known before the checkpoint names them.
        for plugin in self.config.get("plugins") or []:
            registry.load_plugin(plugin)
        status = self.result.get("status")
        if status != "finished":
            log.warning("%s is %s: its model is that of an epoch so far.", self.folder, status)
        if self.checkpoint.name != "best.ckpt":
            log.warning("%s has no best epoch: its model is that of the last one.", self.folder)
        return load_model(self.checkpoint).eval()

    @cached_property
    def data(self) -> GraphDataModule:
        """The data that the model was trained on.

        Raises:
            ValueError: It was given in Python, and no config can build it again.
        """
        section = self.config["data"]
        if section.get("given_in_python"):
            raise ValueError(
                "the data of this run was given in Python, and its folder does not have it: give "
                "it again, run.predict(data)."
            )
        found: GraphDataModule = build("data", section)
        return found

    @cached_property
    def config(self) -> dict[str, Any]:
        """The config with every default: what ran."""
        found: dict[str, Any] = safe_load((self.folder / "config.yaml").read_text("utf-8"))
        return found

    @property
    def result(self) -> dict[str, Any]:
        """The content of ``result.json``: status, sizes, versions and metrics.

        Raises:
            ValueError: It is damaged, or was edited.
        """
        try:
            # Read each time: the run may still be going on.
            return read_result(self.folder)
        except ValueError as error:
            raise ValueError(f"{str(self.folder / 'result.json')!r} {error}.") from None

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the last epoch, and of the best one, such as ``test_acc_at_best_val``."""
        # The file has numbers that are not finite as text.
        return {name: float(value) for name, value in self.result["metrics"].items()}

    @property
    def curves(self) -> pd.DataFrame:
        """Every metric in every epoch.

        Raises:
            FileNotFoundError: The run has none: it was trained with ``logger`` false.
        """
        text = (self.folder / "metrics.csv").read_text(encoding="utf-8")
        # A last row without its end was cut off as it was written: a number may have lost digits.
        rows = pd.read_csv(io.StringIO(text.rpartition("\n")[0]))
        # Rows of one epoch may hold different metrics; last takes each one's last known value.
        return rows.groupby("epoch", as_index=False).last()

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the best validation epoch; of the last epoch, if none is the best."""
        best = self.folder / "checkpoints" / "best.ckpt"
        return best if best.is_file() else best.with_name("last.ckpt")

    def predict(self, data: Any = None, unknown: Unknown = "error") -> pd.DataFrame:
        """Predict every node, or every graph, of some data: see
        :func:`gnn_depth.training.prediction.predictions_of`.

        Args:
            data: A graph, as :func:`gnn_depth.fit` takes it: the one of the training with new
                nodes, or another one; without labels or with them. By default that of the training.
            unknown: What happens to columns and categories that the model misses or does not know:
                ``error`` or ``ignore``.

        Raises:
            ValueError: The model cannot use this data.
        """
        data = self.data if data is None else data
        return predictions_of(self.model, data, unknown)

    def export(self, path: str | Path) -> Path:
        """Write the model as a file that PyTorch runs without this package: see
        :func:`gnn_depth.training.export.export_model`.

        Args:
            path: The file, which ends in ``.pt2``.

        Raises:
            ValueError: A part of the model cannot be exported, or the file's name does not fit.
        """
        return export_model(self.model, Path(path))

    def range(self, nodes: int = 32, largest: bool = False) -> Influence:
        """From how far test nodes read, of a model with an output for each node: see
        :func:`gnn_depth.diagnostics.influence`.

        Args:
            nodes: How many test nodes to measure, always the same ones.
            largest: Measure only the largest output of each node.

        Raises:
            ValueError: The targets are those of whole graphs, or the graph is not one batch.
        """
        batch = getattr(self.data, "batch", None)
        if batch is None or batch.per_graph:
            raise ValueError("range needs a graph in one batch, with a target for each node.")
        test = batch.test_mask.nonzero().flatten()
        chosen = np.random.default_rng(0).permutation(len(test))[:nodes]
        model = self.model.eval()
        batch = batch.to(model.device)
        return influence(
            lambda x, graph: model(replace(batch, x=x, graph=graph)),
            batch.x,
            batch.graph,
            sorted(test[chosen].tolist()),
            largest,
        )

    def __str__(self) -> str:
        return (self._report or self.__repr__)()

    def __repr__(self) -> str:
        result = self.result
        metrics = pd.Series(self.metrics, dtype=float).sort_index().head(MOST_METRICS)
        folder = from_here(self.folder)
        return (
            f"{textwrap.indent(metrics.map(in_digits).to_string(), '  ')}\n\n"
            f"{result['status']} after {result['epochs']} epochs in {result['seconds']:.1f} s; "
            f"{result['num_parameters']:,} parameters\n"
            f"run folder: {folder}\n"
            f"curves:     tensorboard --logdir {folder.parent.parent}"
        )


def load(path: str | Path) -> Run:
    """Load a finished run.

    Plugins that the run names are imported, and parts that its checkpoint names by import path:
    load only what you trust.

    Args:
        path: Its folder, or one above with a single run, such as that of its name.

    Raises:
        ValueError: There is no run with a checkpoint, or there are several, which are named.
    """
    path = Path(path).expanduser()
    if not path.exists():
        near = hint(path.name, (other.name for other in path.parent.glob("*")))
        raise ValueError(f"{str(path)!r} does not exist.{near}")
    run = single_run(path)
    if not (run / "result.json").is_file() or not any((run / "checkpoints").glob("*.ckpt")):
        raise ValueError(f"{str(path)!r} is not the folder of a run with a checkpoint.")
    return Run(run)


def take_weights(model: Any, run: str | Path) -> None:
    """Give a model the weights of a finished run whose names and shapes fit, and log the others.

    Raises:
        ValueError: There is no such run, or none of its weights fits.
    """
    finished = load(run)
    theirs: Any = read_checkpoint(finished.checkpoint)["state_dict"]
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    fits = {name: each for name, each in theirs.items() if each.shape == shapes.get(name)}
    if not fits:
        raise ValueError(f"no weight of {str(run)!r} has the name and shape of one of this model.")
    missing, _ = model.load_state_dict(fits, strict=False)
    if isinstance(model, NodeClassifier):
        model.stack.uncalibrated = None  # an initialisation from the data would replace them
    log.warning("%d of %d tensors are those of %s.", len(fits), len(shapes), finished.folder)
    unused = [name for name in theirs if name not in fits]
    for what, names in (("These begin anew", missing), ("Of that run are not used", unused)):
        if names:
            log.warning("%s: %s.", what, first_of(names, 8))
