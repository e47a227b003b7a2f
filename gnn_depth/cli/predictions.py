"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from gnn_depth.cli.outputs import write_whole
from gnn_depth.data.base import GraphDataModule
from gnn_depth.training.tasks import Task


def write(batches: list[Tensor], data: GraphDataModule, task: Task, output: str) -> str:
    """Write probabilities or predicted numbers, shape (nodes, outputs) per batch, and return a
    description."""
    path, values = Path(output), torch.cat(batches).float().cpu()
    row = "graph" if data.per_graph else "node"
    ids = np.arange(len(values)) if data.node_ids is None else data.node_ids

    def write_to(part: Path) -> None:
        if path.suffix == ".npz":
            arrays = {
                f"{row}s": ids.astype(str)
                if ids.dtype == object
                else ids,  # plain text is read without unpickling
                "classes": np.array(data.class_names, str),
                "values" if task.targets == "numbers" else "probabilities": values.numpy(),
            }
            with part.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        elif path.suffix == ".parquet":
            _table(row, ids, data.class_names, task.targets, values).to_parquet(
                part, engine="pyarrow", index=False
            )
        else:
            table = _table(row, ids, data.class_names, task.targets, values)
            # Nine significant digits restore every float32.
            table.to_csv(
                part, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8"
            )

    write_whole(path, write_to)
    what = {
        "classes": "class probabilities",
        "labels": "label probabilities",
        "numbers": "numbers",
    }[task.targets]
    return f"{what} of {len(values)} {row}s"


def _table(
    row: str, ids: np.ndarray, classes: list[str], targets: str, values: Tensor
) -> pd.DataFrame:
    """Ids and values; for classes also the predicted class and its probability."""
    columns: dict[str, np.ndarray] = {row: ids}
    if targets == "classes":
        best, winner = values.max(1)
        columns |= {
            "predicted": np.array(classes, object)[winner.numpy()],
            "probability": best.numpy(),
        }
    name = {"classes": "class", "labels": "label", "numbers": "value"}[targets]
    return pd.DataFrame(
        columns
        | {f"{name}_{known}": values[:, column].numpy() for column, known in enumerate(classes)}
    )
