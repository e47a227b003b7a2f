"""Class probabilities of all nodes in a file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import check_output, write_whole


def _write_csv(probabilities: Tensor, path: Path) -> None:
    header = ",".join(["node", *(f"class_{c}" for c in range(probabilities.shape[1]))])
    # Nine digits give back every float32.
    lines = (f"{node}," + ",".join(f"{p:.9g}" for p in row) for node, row in enumerate(probabilities.tolist()))
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


def _write_npz(probabilities: Tensor, path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, probabilities=probabilities.numpy())


WRITERS: dict[str, Callable[[Tensor, Path], None]] = {".csv": _write_csv, ".npz": _write_npz, ".pt": torch.save}
SUFFIXES_TEXT = ".csv, .npz (array `probabilities`) or .pt"


def check(output: str | None) -> None:
    """Refuse, before any work, a file that could not be written at its end.

    Raises:
        UsageError: No file is named, its suffix is unknown, its folder does not exist or it exists already.
    """
    if output is None:
        raise UsageError(f"predict needs a file to write to: --output FILE, with suffix {SUFFIXES_TEXT}.")
    check_output(output, list(WRITERS))


def write(batches: list[Tensor], output: str) -> None:
    """Write the probabilities, shape (nodes, classes), so that the file is whole or not there at all."""
    path = Path(output)
    write_whole(path, lambda part: WRITERS[path.suffix](torch.cat(batches).float().cpu(), part))
