"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gnn_depth.cli.outputs import write_whole
from gnn_depth.reports.settings import plural
from gnn_depth.training.prediction import WORDS
from gnn_depth.training.tasks import Task


def write(table: pd.DataFrame, task: Task, output: str) -> str:
    """Write a table of predictions, and return a description.

    A ``.npz`` file holds ``nodes`` or ``graphs`` (rows,), ``classes`` (outputs,), and
    ``probabilities`` or ``values`` (rows, outputs). A ``.csv`` holds the whole
    table.
    """
    path = Path(output)
    words, _ = WORDS[task.targets]

    def write_to(part: Path) -> None:
        if path.suffix == ".npz":
            with part.open("wb") as file:
                np.savez(file, **_arrays(table, task))
        else:
            # Nine significant digits restore every float32.
            table.to_csv(
                part, index=False, float_format="%.9g", lineterminator="\n", encoding="utf-8"
            )

    write_whole(path, write_to)
    return f"{words} of {plural(len(table), table.columns[0])}"


def _arrays(table: pd.DataFrame, task: Task) -> dict[str, Any]:
    """The arrays of a ``.npz`` file."""
    _, prefix = WORDS[task.targets]
    kind = table.columns[0]  # node or graph
    ids = table[kind].to_numpy()
    if ids.dtype == object:  # plain text is read without unpickling
        ids = ids.astype(str)
    columns = [column for column in table.columns[1:] if column.startswith(f"{prefix}_")]
    outputs = np.array([column.removeprefix(f"{prefix}_") for column in columns], str)
    name = "values" if task.targets == "numbers" else "probabilities"
    return {f"{kind}s": ids, "classes": outputs, name: table[columns].to_numpy()}
