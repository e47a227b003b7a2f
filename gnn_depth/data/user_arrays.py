"""A user's graph in one file: NumPy arrays, or tensors saved by ``torch.save``."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from gnn_depth.data.checks import READ, DataError

SUFFIXES = (".npz", ".pt", ".pth")
NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


def read_arrays(path: Path, notes: list[str]) -> object:
    """The content of an ``.npz``, ``.pt`` or ``.pth`` file, without running code in it.

    Args:
        path: The file.
        notes: Gets a sentence about arrays that are passed over.

    Returns:
        Arrays by name; of a ``.pt`` also a ``Data`` or a list. An ``.npz`` of the gnn-benchmark
        layout becomes a ``Data``.

    Raises:
        DataError: The file cannot be read, or contains anything but arrays.
    """
    if path.suffix.lower() == ".npz":
        return _read_npz(path, notes)
    return _read_torch(path)


def _read_npz(path: Path, notes: list[str]) -> Any:
    arrays = {}
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if {"adj_indptr", "adj_indices", "adj_shape", "labels"} <= {*archive.files}:
                return _read_benchmark(archive, notes)
            for name in archive.files:
                array = _plain_array(archive, name)
                if array is None:
                    notes.append(f"{name} holds no numbers, and is not read.")
                else:
                    arrays[name] = array
    except Exception as error:  # a damaged archive raises various errors of zipfile, zlib and NumPy
        # NumPy's message would recommend to unpickle the file, which runs code in it.
        reason = "it is not an archive of plain arrays" if "pickle" in str(error) else error
        raise DataError(
            f"it cannot be read as npz: {reason}.\nTo save plain arrays: {NPZ_HINT}"
        ) from None
    return arrays


def _read_benchmark(archive: Any, notes: list[str]) -> dict[str, Any]:
    """A graph in the layout of gnn-benchmark (Shchur et al. 2018)."""
    from torch_geometric.io.npz import parse_npz

    needed = [name for name in archive.files if name.startswith(("adj_", "attr_"))]
    parts = {name: archive[name] for name in (*needed, "labels")}
    if "adj_data" not in parts:  # which the reader of PyTorch Geometric asks for, and ignores
        parts["adj_data"] = np.ones(len(parts["adj_indices"]))
    if "attr_indptr" not in parts:  # a graph without features
        nodes = int(parts["adj_shape"][0])
        empty = sparse.csr_array((nodes, 0))
        for name in ("data", "indices", "indptr"):
            parts[f"attr_{name}"] = getattr(empty, name)
        parts["attr_shape"] = empty.shape
    features = parts["attr_data"]
    if len(features) and (features.min() < 0 or features.max() > 1):
        notes.append("features above 0 become 1, as PyTorch Geometric reads this layout.")
    notes.append("loops are left out, and every edge runs both ways.")
    arrays = dict(parse_npz(parts).to_dict())
    arrays["num_nodes"] = len(arrays["x"])
    if not arrays["x"].shape[1]:  # so that features are made, as for any graph without them
        del arrays["x"]
    return arrays


def _plain_array(archive: Any, name: str) -> np.ndarray | None:
    """An array of an archive; None for one without numbers that no graph needs."""
    try:
        array: np.ndarray = archive[name]
    except ValueError as error:  # objects, which would have to be unpickled
        if name in READ or "pickle" not in str(error):
            raise
        return None
    if name in READ or array.dtype.kind in "biuf":
        return array
    return None


def _read_torch(path: Path) -> Any:
    # Imported here because it is slow.
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # a damaged file raises various errors
        # PyTorch's message would recommend to load the file unsafely, which runs code in it.
        refused = re.search(r"GLOBAL (\w+(?:\.\w+)*)", str(error))
        reason = f"torch.load failed ({type(error).__name__})"
        if refused:
            reason = f"it asks for {refused[1]}"
        raise DataError(
            f"it is damaged or contains more than tensors, and was not loaded: "
            f"{reason}.\nIf you trust its origin, load it yourself and save its arrays: {NPZ_HINT}"
        ) from None
    return _separated(content) if isinstance(content, tuple) else content


def _separated(content: tuple[Any, ...]) -> Any:
    """The graphs of a data set that PyTorch Geometric saved, as (data, slices) with or without the
    class; another tuple as it is."""
    from torch_geometric.data import Data
    from torch_geometric.data.separate import separate

    data, slices = (*content, None, None)[:2]
    # Newer versions save the arrays of the graph, older ones the object.
    if isinstance(data, dict) and "edge_index" in data:
        data = Data.from_dict(data)
    if not isinstance(data, Data) or not (slices is None or isinstance(slices, dict)):
        return content
    if not slices:  # a single graph
        return data
    count = len(next(iter(slices.values()))) - 1
    return [separate(Data, data, number, slices, decrement=False) for number in range(count)]
