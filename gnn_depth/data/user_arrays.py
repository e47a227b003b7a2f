"""A user's graph in one file: NumPy arrays, or tensors saved by ``torch.save``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.checks import MASKS, DataError
from gnn_depth.registry import unknown

REQUIRED = ("x", "y", "edge_index")
SUFFIXES = (".npz", ".pt", ".pth")
NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


@dataclass(frozen=True)
class EdgeColumns:
    """The roles of the columns of a table of edges, or of the arrays in a file."""

    ends: Sequence[str] = ()  # source and target, of a table; the first two columns if it is empty
    weight: str | None = None
    features: Sequence[str] = ()

    @property
    def of_each(self) -> list[str]:
        """The columns or arrays with values of the edges."""
        return [name for name in (self.weight, *self.features) if name]


@dataclass(frozen=True, eq=False)
class UserContent:
    """The content of a user's files, before it is checked."""

    x: Tensor
    y: Tensor  # any value for a node without a label
    edge_index: Tensor
    masks: tuple[Tensor, Tensor, Tensor] | None  # if the files have a split
    labelled: Tensor | None = None  # the nodes that have a label; None for all
    node_ids: np.ndarray | None = None
    class_names: list[str] | None = None
    of_edges: dict[str, Any] = field(
        default_factory=dict
    )  # arguments of a graph: edge_weight and edge_attr


def read_arrays(path: Path, of_edges: EdgeColumns) -> UserContent:
    """Read an ``.npz``, ``.pt`` or ``.pth`` file, without running code in it.

    Raises:
        DataError: The file cannot be read, lacks a part, or contains anything but numbers.
    """
    arrays = _read_npz(path) if path.suffix == ".npz" else _read_torch(path)
    absent = [name for name in REQUIRED if name not in arrays]
    if absent:
        raise DataError(
            f"it has no {' and no '.join(absent)}; it has {', '.join(sorted(arrays)) or 'nothing'}."
        )
    x, y, edges = (arrays[name] for name in REQUIRED)
    y = y if y.dim() else y[None]
    y = y.flatten() if y.shape[1:] == (1,) else y
    y = y.float() if y.is_floating_point() else y.long()
    if edges.numel() == 0:  # legal, and empty arrays of NumPy are floats unless told otherwise
        edges = torch.empty(2, 0, dtype=torch.long)
    if edges.is_floating_point() or edges.dim() != 2 or 2 not in edges.shape:
        raise DataError(
            f"edge_index must be integers of shape (2, edges) or (edges, 2), not {edges.dtype} "
            f"{tuple(edges.shape)}."
        )
    edges = (edges if len(edges) == 2 else edges.T).long().contiguous()
    labelled = y.isfinite().view(len(y), -1).all(1) if y.is_floating_point() else None
    more = _of_edges(arrays, of_edges, edges.shape[1])
    return UserContent(x.to_dense().float(), y, edges, _masks(arrays), labelled, of_edges=more)


def _read_npz(path: Path) -> dict[str, Tensor]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except Exception as error:  # a damaged archive raises various errors of zipfile, zlib and NumPy
        # NumPy's message would recommend to unpickle the file, which runs code in it.
        reason = "it is not an archive of plain arrays" if "pickle" in str(error) else error
        raise DataError(
            f"it cannot be read as npz: {reason}.\nTo save plain arrays: {NPZ_HINT}"
        ) from None


def _read_torch(path: Path) -> dict[str, Tensor]:
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
        reason = (
            f"it asks for {refused[1]}"
            if refused
            else f"torch.load failed ({type(error).__name__})"
        )
        raise DataError(
            f"it is damaged or contains more than tensors, and was not loaded: {reason}.\n"
            f"If you trust its origin, load it yourself and save its arrays: {NPZ_HINT}"
        ) from None
    if isinstance(content, Data):
        content = content.to_dict()
    if not isinstance(content, dict):
        raise DataError(f"it contains a {type(content).__name__}, not a Data or a dict of tensors.")
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def _of_edges(arrays: dict[str, Tensor], columns: EdgeColumns, edges: int) -> dict[str, Any]:
    for name in columns.of_each:
        if name not in arrays:
            raise DataError(unknown("array", name, arrays))
        if arrays[name].shape[:1] != (edges,):
            raise DataError(
                f"{name} must have one row per edge ({edges:,}), not shape "
                f"{tuple(arrays[name].shape)}."
            )
    found = {"edge_weight": arrays[columns.weight].float()} if columns.weight else {}
    features = [
        arrays[name] if arrays[name].dim() > 1 else arrays[name][:, None]
        for name in columns.features
    ]
    return found | ({"edge_attr": torch.cat(features, 1).float()} if features else {})


def _masks(arrays: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor] | None:
    given = [name for name in MASKS if name in arrays]
    if not given:
        return None
    if len(given) < len(MASKS):
        raise DataError(f"it has {' and '.join(given)}: give all of {', '.join(MASKS)}, or none.")
    for name in MASKS:
        mask = arrays[name]
        if mask.dtype != torch.bool and not ((mask == 0) | (mask == 1)).all():
            raise DataError(f"{name} must be true or false for each node.")
    train, val, test = (arrays[name].bool() for name in MASKS)
    return train, val, test
