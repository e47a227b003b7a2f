"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path

import numpy as np
import pandas as pd

from gnn_depth.cli.outputs import write_whole
from gnn_depth.training.prediction import WORDS
from gnn_depth.training.tasks import Task


def write(table: pd.DataFrame, task: Task, output: str) -> str:
    """Write a table of predictions, and return a description."""
    path = Path(output)
    words, prefix = WORDS[task.targets]
    row = table.columns[0]

    def write_to(part: Path) -> None:
        if path.suffix == ".npz":
            ids = table[row].to_numpy()
            # Plain text is read without unpickling.
            plain_ids = ids.astype(str) if ids.dtype == object else ids
            name = "values" if task.targets == "numbers" else "probabilities"
            columns = [column for column in table.columns[1:] if column.startswith(f"{prefix}_")]
            classes = np.array([column.removeprefix(f"{prefix}_") for column in columns], str)
            values = table[columns].to_numpy()
            arrays = {f"{row}s": plain_ids, "classes": classes, name: values}
            with part.open("wb") as file:
                np.savez(file, **arrays)
            return
        if path.suffix == ".parquet":
            table.to_parquet(part, engine="pyarrow", index=False)
        else:
            # Nine significant digits restore every float32.
            table.to_csv(
                part, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8"
            )

    write_whole(path, write_to)
    return f"{words} of {len(table)} {row}{'' if len(table) == 1 else 's'}"
