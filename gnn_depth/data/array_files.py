"""A user's graph in one file: NumPy arrays, or tensors saved by ``torch.save``."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from gnn_depth.data.checks import DataError

NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


def existing_file(name: str, path: str) -> Path:
    """The path of a file that is there.

    Raises:
        DataError: There is no such file.
    """
    found = Path(path).expanduser()
    if not found.is_file():
        fault = "is a folder" if found.is_dir() else "does not exist"
        raise DataError(
            f"{name} {path!r} {fault}: give the path of a file (looked in {str(Path.cwd())!r})."
        )
    return found


def read_arrays(path: Path) -> Any:
    """The content of an ``.npz``, ``.pt`` or ``.pth`` file, without running code in it.

    Args:
        path: The file.

    Returns:
        Arrays by name; of a ``.pt`` also a ``Data`` or a list.

    Raises:
        DataError: The file cannot be read, or contains anything but arrays.
    """
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".pt", ".pth"):
        raise DataError(
            f"{str(path)!r} must end in .npz, .pt or .pth. Two tables are given as nodes and "
            "edges: gnn-depth fit nodes.csv edges.csv --data.label COLUMN, in Python "
            "Tables(nodes, edges, label=...)."
        )
    existing_file("graph file", str(path))
    try:
        if suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return dict(archive)
        # Imported here because it is slow.
        from torch_geometric.data import Data
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        known = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
        with torch.serialization.safe_globals(known):
            return torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file raises various errors
        # NumPy and PyTorch would recommend to unpickle the file, which runs code in it.
        raise DataError(
            f"it is damaged or contains more than arrays, and was not loaded "
            f"({type(error).__name__}).\nIf you trust its origin, load it yourself and save its "
            f"arrays: {NPZ_HINT}"
        ) from None
