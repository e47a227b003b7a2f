"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.cli.outputs import write_whole
from gnn_depth.data.base import GraphDataModule
from gnn_depth.training.tasks import Task

# By what a task predicts: what the file holds in words, and the name of a column.
WORDS = {
    "classes": ("class probabilities", "class"),
    "labels": ("label probabilities", "label"),
    "numbers": ("numbers", "value"),
}


def write(batches: list[Tensor], data: GraphDataModule, task: Task, output: str) -> str:
    """Write probabilities or predicted numbers, shape (nodes, outputs) per batch.

    Returns a description.
    """
    path = Path(output)
    values = torch.cat(batches).float().cpu()
    row = "graph" if data.per_graph else "node"
    ids = np.arange(len(values)) if data.node_ids is None else data.node_ids

    def write_to(part: Path) -> None:
        if path.suffix == ".npz":
            # Plain text is read without unpickling.
            plain_ids = ids.astype(str) if ids.dtype == object else ids
            name = "values" if task.targets == "numbers" else "probabilities"
            classes = np.array(data.class_names, str)
            arrays = {f"{row}s": plain_ids, "classes": classes, name: values.numpy()}
            with part.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            return
        table = _table(row, ids, data.class_names, task.targets, values)
        if path.suffix == ".parquet":
            table.to_parquet(part, engine="pyarrow", index=False)
        else:
            # Nine significant digits restore every float32.
            table.to_csv(
                part, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8"
            )

    write_whole(path, write_to)
    return f"{WORDS[task.targets][0]} of {len(values)} {row}s"


def _table(
    row: str, ids: np.ndarray, classes: list[str], targets: str, values: Tensor
) -> pd.DataFrame:
    """Ids and values; for classes also the predicted class and its probability."""
    columns: dict[str, np.ndarray] = {row: ids}
    if targets == "classes":
        best, winner = values.max(1)
        columns["predicted"] = np.array(classes, object)[winner.numpy()]
        columns["probability"] = best.numpy()
    name = WORDS[targets][1]
    for column, known in enumerate(classes):
        columns[f"{name}_{known}"] = values[:, column].numpy()
    return pd.DataFrame(columns)
