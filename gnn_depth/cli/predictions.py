"""Write the class probabilities of all nodes to a file."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import check_output, write_whole
from gnn_depth.data.base import GraphDataModule


@dataclass(frozen=True, eq=False)
class Predictions:
    """The class probabilities that a model predicts for the nodes.

    Attributes:
        nodes: Their ids, or their numbers.
        classes: Names of the classes.
        probabilities: Shape (nodes, classes).
    """

    nodes: np.ndarray
    classes: list[str]
    probabilities: Tensor

    @property
    def table(self) -> pd.DataFrame:
        """A row for each node: its id, the most probable class with its probability, and those of all classes."""
        best, place = self.probabilities.max(1)
        columns = {
            "node": self.nodes,
            "predicted": np.array(self.classes, object)[place.numpy()],
            "probability": best.numpy(),
            **{f"class_{name}": self.probabilities[:, number].numpy() for number, name in enumerate(self.classes)},
        }
        return pd.DataFrame(columns)


def _write_csv(predictions: Predictions, path: Path) -> None:
    # Nine digits give back every float32.
    predictions.table.to_csv(path, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8")


def _write_npz(predictions: Predictions, path: Path) -> None:
    nodes, classes = predictions.nodes, predictions.classes
    with path.open("wb") as file:  # as plain text, which is read without unpickling
        np.savez(
            file,
            nodes=nodes.astype(str) if nodes.dtype == object else nodes,
            classes=np.array(classes, str),
            probabilities=predictions.probabilities.numpy(),
        )


def _write_pt(predictions: Predictions, path: Path) -> None:
    torch.save(predictions.probabilities, path)


def _write_parquet(predictions: Predictions, path: Path) -> None:
    predictions.table.to_parquet(path, engine="pyarrow", index=False)


WRITERS: dict[str, Callable[[Predictions, Path], None]] = {
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".pt": _write_pt,
}
SUFFIXES_TEXT = ".csv, .parquet, .npz (arrays `nodes`, `classes`, `probabilities`) or .pt (probabilities alone)"


def check_request(output: str | None) -> None:
    """Refuse an output file that could not be written, before any work is done.

    Raises:
        UsageError: No file is named, its suffix is unknown, its folder does not exist, it exists already, or the
            package that writes it is not installed.
    """
    if output is None:
        raise UsageError(f"predict needs a file to write to: --output FILE, with suffix {SUFFIXES_TEXT}.")
    path = check_output(output, list(WRITERS))
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("Parquet needs the extra `parquet`: pip install 'gnn-depth[parquet]'.")


def write(batches: list[Tensor], data: GraphDataModule, output: str) -> None:
    """Write the class probabilities atomically.

    Args:
        batches: Probabilities, shape (nodes, classes) each.
        data: Has the names of nodes and classes.
        output: The file.

    Raises:
        UsageError: The file was created meanwhile.
    """
    path, probabilities = Path(output), torch.cat(batches).float().cpu()
    nodes = np.arange(len(probabilities)) if data.node_ids is None else data.node_ids
    predictions = Predictions(nodes, data.class_names, probabilities)
    write_whole(path, lambda part: WRITERS[path.suffix](predictions, part))
