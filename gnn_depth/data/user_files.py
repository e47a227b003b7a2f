"""A user's graph in one file: arrays of NumPy, or what torch.save wrote."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.checks import MASKS, DataError

NEEDED = ("x", "y", "edge_index")
SUFFIXES = (".npz", ".pt", ".pth")
NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


@dataclass(frozen=True, eq=False)
class Content:
    """What a user's files hold, not checked yet.

    Attributes:
        x: Features of the nodes, shape (nodes, features).
        y: Their classes; any for a node without a label.
        edge_index: Sources and targets of the edges, shape (2, edges).
        masks: The nodes to train, validate and test on, if the files say so.
        labelled: The nodes that have a label.
        node_ids: What the nodes are called, if they have names.
        class_names: What the classes are called, if they have names.
    """

    x: Tensor
    y: Tensor
    edge_index: Tensor
    masks: tuple[Tensor, Tensor, Tensor] | None
    labelled: Tensor
    node_ids: np.ndarray | None = None
    class_names: list[str] | None = None


def read_file(path: Path) -> Content:
    """Read an ``.npz``, or a ``.pt`` or ``.pth`` without running what is in it.

    Raises:
        DataError: It cannot be read, lacks a part, or holds something else than numbers.
    """
    arrays = _read_npz(path) if path.suffix == ".npz" else _read_torch(path)
    absent = [name for name in NEEDED if name not in arrays]
    if absent:
        raise DataError(f"it has no {' and no '.join(absent)}; it has {', '.join(sorted(arrays)) or 'nothing'}.")
    x, y = _features(arrays["x"]), _classes(arrays["y"])
    return Content(x, y, _edge_index(arrays["edge_index"]), _masks(arrays), torch.ones(len(x), dtype=torch.bool))


def _read_npz(path: Path) -> dict[str, Tensor]:
    # A damaged archive raises whatever zipfile, zlib or NumPy meet first.
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except Exception as error:
        # NumPy's own words advise to unpickle what cannot be read, which runs what the file says.
        reason = "it is no archive of plain arrays" if "pickle" in str(error) else error
        raise DataError(f"it cannot be read as npz: {reason}.\nTo save one of plain arrays: {NPZ_HINT}") from None


def _read_torch(path: Path) -> dict[str, Tensor]:
    # Seconds that only users of such files pay.
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, weights_only=True, map_location="cpu")
    # As above. The words of PyTorch are not passed on: they advise to load unsafely, which runs what the file says.
    except Exception as error:
        asked = re.search(r"GLOBAL (\w+(?:\.\w+)*)", str(error))
        reason = f"it asks for {asked[1]}" if asked else f"it is no file of torch.save ({type(error).__name__})"
        raise DataError(
            f"it is damaged or holds more than tensors, and was not loaded: {reason}.\n"
            f"If you trust its origin, load it yourself and save its arrays: {NPZ_HINT}"
        ) from None
    if isinstance(content, Data):
        content = content.to_dict()
    if not isinstance(content, dict):
        raise DataError(f"it holds a {type(content).__name__}, not a Data or a dict of tensors.")
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


def _features(x: Tensor) -> Tensor:
    if x.layout != torch.strided or x.is_complex() or x.dim() != 2:
        raise DataError(
            f"x must be dense numbers of shape (nodes, features), not {x.layout} {x.dtype} {tuple(x.shape)}."
        )
    return x.to(torch.float32, copy=True)


def _classes(y: Tensor) -> Tensor:
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise DataError(f"y must be the integer class of each node, not {y.dtype}.")
    return y.flatten().long() if y.shape[1:] == (1,) else y.long()


def _edge_index(edge_index: Tensor) -> Tensor:
    if edge_index.numel() == 0:
        # No edges are legal, and an empty array of NumPy is one of floats unless told otherwise.
        return torch.empty(2, 0, dtype=torch.long)
    if edge_index.is_floating_point() or edge_index.dim() != 2 or 2 not in edge_index.shape:
        raise DataError(
            f"edge_index must be integers of shape (2, edges) or (edges, 2), "
            f"not {edge_index.dtype} {tuple(edge_index.shape)}."
        )
    return (edge_index if len(edge_index) == 2 else edge_index.T).long().contiguous()


def _mask(name: str, mask: Tensor) -> Tensor:
    if mask.dim() == 2:
        raise DataError(f"{name} has shape {tuple(mask.shape)}: it holds several splits. Save the one you want.")
    if mask.dtype != torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise DataError(f"{name} must be one yes or no for each node.")
    return mask.bool()


def _masks(arrays: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor] | None:
    given = [name for name in MASKS if name in arrays]
    if not given:
        return None
    if len(given) < len(MASKS):
        raise DataError(f"it has {' and '.join(given)}: give all of {', '.join(MASKS)}, or none.")
    train, val, test = (_mask(name, arrays[name]) for name in MASKS)
    return train, val, test
