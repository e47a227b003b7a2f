"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path

import numpy as np
import pandas as pd

from gnn_depth.cli.outputs import write_whole
from gnn_depth.reports.settings import plural
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
            if ids.dtype == object:  # plain text is read without unpickling
                ids = ids.astype(str)
            name = "probabilities"
            if task.targets == "numbers":
                name = "values"
            columns = [column for column in table.columns[1:] if column.startswith(f"{prefix}_")]
            classes = np.array([column.removeprefix(f"{prefix}_") for column in columns], str)
            arrays = {f"{row}s": ids, "classes": classes, name: table[columns].to_numpy()}
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
    return f"{words} of {plural(len(table), row)}"
