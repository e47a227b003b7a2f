"""Write the predictions for all nodes or graphs to a file."""

from pathlib import Path

import numpy as np
import pandas as pd

from gnn_depth.cli.outputs import write_whole
from gnn_depth.training.prediction import WORDS
from gnn_depth.training.tasks import Task


def write(table: pd.DataFrame, task: Task, output: str) -> str:
    """Write a table of predictions, and return a description.

    A ``.npz`` file holds ``nodes`` or ``graphs`` (rows,), ``classes`` (outputs,), and
    ``probabilities`` or ``values`` (rows, outputs). A ``.csv`` holds the whole
    table.
    """
    words, prefix = WORDS[task.targets]
    kind = table.columns[0]  # node or graph

    def write_to(part: Path) -> None:
        if part.suffix == ".csv":
            # Nine significant digits restore every float32.
            table.to_csv(part, index=False, float_format="%.9g", lineterminator="\n")
            return
        ids = table[kind].to_numpy()
        if ids.dtype == object:  # plain text is read without unpickling
            ids = ids.astype(str)
        columns = table.filter(regex=f"^{prefix}_")
        classes = columns.columns.str.removeprefix(f"{prefix}_").to_numpy(str)
        name = "values" if task.targets == "numbers" else "probabilities"
        arrays = {f"{kind}s": ids, "classes": classes, name: columns.to_numpy()}
        with part.open("wb") as file:
            np.savez(file, **arrays)

    write_whole(Path(output), write_to)
    return f"{words} of {len(table)} {kind}s"
