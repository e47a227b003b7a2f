"""Class probabilities of all nodes in a file."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_depth.cli.errors import UsageError


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
    path = Path(output)
    if path.suffix not in WRITERS:
        raise UsageError(f"--output {output}: unknown suffix {path.suffix!r}. Available: {', '.join(WRITERS)}.")
    if path.exists():
        raise UsageError(f"--output {output}: the file exists; move it away or choose another name.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {output}: there is no folder {str(path.parent)!r} that can be written to.")


def write(batches: list[Tensor], output: str) -> None:
    """Write the probabilities, shape (nodes, classes), so that the file is whole or not there at all."""
    path = Path(output)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        WRITERS[path.suffix](torch.cat(batches).float().cpu(), part)
        check(output)  # it may have come into being since the first check
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
