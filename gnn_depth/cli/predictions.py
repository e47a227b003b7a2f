"""Write the predictions for all nodes or graphs to a file."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.cli.outputs import write_whole
from gnn_depth.data.base import GraphDataModule
from gnn_depth.training.tasks import Task


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of a model for all nodes or graphs.

    Attributes:
        rows: ``node`` or ``graph``.
        ids: Their ids, or their numbers.
        classes: Names of the classes, labels or numbers.
        targets: ``classes``, ``labels`` or ``numbers``.
        values: Probabilities of the classes or labels, or the numbers, shape (rows, classes).
    """

    rows: str
    ids: np.ndarray
    classes: list[str]
    targets: str
    values: Tensor

    @property
    def table(self) -> pd.DataFrame:
        """A row for each node: its id, the most probable class with its probability, and those of all classes.

        For labels and numbers only the id and their values.
        """
        head: dict[str, np.ndarray] = {self.rows: self.ids}
        if self.targets == "classes":
            best, place = self.values.max(1)
            head |= {"predicted": np.array(self.classes, object)[place.numpy()], "probability": best.numpy()}
        name = {"classes": "class", "labels": "label", "numbers": "value"}[self.targets]
        each = {f"{name}_{known}": self.values[:, number].numpy() for number, known in enumerate(self.classes)}
        return pd.DataFrame(head | each)


def _write_csv(predictions: Predictions, path: Path) -> None:
    # Nine digits give back every float32.
    predictions.table.to_csv(path, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8")


def _write_npz(predictions: Predictions, path: Path) -> None:
    ids = predictions.ids
    with path.open("wb") as file:  # as plain text, which is read without unpickling
        arrays = {
            f"{predictions.rows}s": ids.astype(str) if ids.dtype == object else ids,
            "classes": np.array(predictions.classes, str),
            "values" if predictions.targets == "numbers" else "probabilities": predictions.values.numpy(),
        }
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _write_pt(predictions: Predictions, path: Path) -> None:
    buffer = io.BytesIO()  # torch's own errors in writing do not say why
    torch.save(predictions.values, buffer)
    path.write_bytes(buffer.getvalue())


def _write_parquet(predictions: Predictions, path: Path) -> None:
    predictions.table.to_parquet(path, engine="pyarrow", index=False)


WRITERS: dict[str, Callable[[Predictions, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".pt": _write_pt,
}


def write(batches: list[Tensor], data: GraphDataModule, task: Task, output: str) -> str:
    """Write the predictions atomically, and return what was written, in words.

    Args:
        batches: Probabilities or numbers, shape (nodes, outputs) each.
        data: Has the names of nodes and classes.
        task: The task of the model.
        output: The file.
    """
    path, values = Path(output), torch.cat(batches).float().cpu()
    ids = np.arange(len(values)) if data.node_ids is None else data.node_ids
    predictions = Predictions("graph" if data.per_graph else "node", ids, data.class_names, task.targets, values)
    write_whole(path, lambda part: WRITERS[path.suffix](predictions, part))
    what = {"classes": "class probabilities", "labels": "label probabilities", "numbers": "numbers"}[task.targets]
    return f"{what} of {len(values)} {predictions.rows}s"
