"""A user's own graph."""

import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.base import NodeBatch, NodeDataModule
from gnn_depth.data.checks import MASKS, DataError, check_nodes, check_range
from gnn_depth.data.draws import Draws
from gnn_depth.data.features import coalesce, normalize_rows
from gnn_depth.graph import Graph
from gnn_depth.registry import register

NEEDED = ("x", "y", "edge_index")
NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


@register("data", "UserGraph")
class UserGraph(NodeDataModule):
    """A graph from a file of your own, whose nodes are to be classified.

    Args:
        path: An ``.npz`` with ``x`` (nodes, features), ``y`` (nodes,), ``edge_index`` (2, edges) or (edges, 2), which
            for two edges means the former, and, if you like, ``train_mask``, ``val_mask`` and ``test_mask`` (nodes,);
            or, saved by ``torch.save`` as ``.pt`` or ``.pth``, a PyTorch Geometric ``Data`` or a dict of tensors with
            the same names.
        undirected: Whether every edge is to run in both directions, without repetitions.
        normalize_features: Whether each node's features are divided by the sum of their sizes.
        train_fraction: Part of the nodes to train on where the file has no masks, above 0.
        val_fraction: Part of the nodes to validate on where the file has no masks; the rest is to test on.
        seed: Which nodes these are.

    Raises:
        ValueError: There is no such file, or the fractions add up to more than one.
    """

    def __init__(
        self,
        path: str,
        undirected: bool = False,
        normalize_features: bool = False,
        train_fraction: float = 0.6,
        val_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise DataError(f"graph file {path!r} does not exist (looked in {str(Path.cwd())!r}).")
        if self.path.suffix not in (".npz", ".pt", ".pth"):
            raise DataError(f"graph file {path!r} must be .npz, .pt or .pth. To save one: {NPZ_HINT}")
        if train_fraction == 0:
            raise ValueError("train_fraction must be above 0: there would be no node to train on.")
        check_range("train_fraction", train_fraction, 0, 1)
        check_range("val_fraction", val_fraction, 0, 1)
        # Rounded, as 0.58 + 0.42 and the like may come out a bit above one.
        check_range("train_fraction + val_fraction", round(train_fraction + val_fraction, 12), 0, 1)
        check_range("seed", seed, 0)
        self.undirected = undirected
        self.normalize_features = normalize_features
        self.train_fraction = train_fraction
        self.val_fraction = val_fraction
        self.seed = seed

    @property
    def num_classes(self) -> int:
        return int(self.loaded.y.max()) + 1

    def load(self) -> NodeBatch:
        """Read the file.

        Raises:
            DataError: It cannot be read, lacks a part, or its parts do not fit each other.
        """
        arrays = _read_npz(self.path) if self.path.suffix == ".npz" else _read_torch(self.path)
        absent = [name for name in NEEDED if name not in arrays]
        if absent:
            raise self._refused(f"has no {' and no '.join(absent)}; it has {', '.join(sorted(arrays)) or 'nothing'}")
        try:
            x, y, edge_index = _features(arrays["x"]), _classes(arrays["y"]), _edge_index(arrays["edge_index"])
            masks = self._masks(arrays, len(x))
            check_nodes(x, y, len(x), masks)
            graph = Graph(edge_index, len(x))
        except ValueError as error:
            raise self._refused(f"is refused: {error}") from None
        if self.undirected:
            graph = Graph(coalesce(edge_index, len(x), undirected=True), len(x))
        return NodeBatch(normalize_rows(x) if self.normalize_features else x, y, graph, *masks)

    def _masks(self, arrays: dict[str, Tensor], nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        given = [name for name in MASKS if name in arrays]
        if given:
            if len(given) < len(MASKS):
                raise DataError(f"it has {' and '.join(given)}: give all of {', '.join(MASKS)}, or none.")
            train, val, test = (_mask(name, arrays[name]) for name in MASKS)
            return train, val, test
        order = Draws(self.seed, "split").permutation(nodes)
        first = max(1, round(self.train_fraction * nodes))
        last = max(first, round((self.train_fraction + self.val_fraction) * nodes))
        masks = torch.zeros(3, nodes, dtype=torch.bool)
        for mask, part in zip(masks, (order[:first], order[first:last], order[last:]), strict=True):
            mask[part] = True
        return masks[0], masks[1], masks[2]

    def _refused(self, why: str) -> DataError:
        return DataError(f"graph file {str(self.path)!r} {why}")


def _read_npz(path: Path) -> dict[str, Tensor]:
    # A damaged archive raises whatever zipfile, zlib or NumPy meet first.
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except Exception as error:
        # NumPy's own words advise to unpickle what cannot be read, which runs what the file says.
        reason = "it is no archive of plain arrays" if "pickle" in str(error) else error
        raise DataError(
            f"graph file {str(path)!r} cannot be read as npz: {reason}.\nTo save one of plain arrays: {NPZ_HINT}"
        ) from None


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
            f"graph file {str(path)!r} is damaged or holds more than tensors, and was not loaded: {reason}.\n"
            f"If you trust its origin, load it yourself and save its arrays: {NPZ_HINT}"
        ) from None
    if isinstance(content, Data):
        content = content.to_dict()
    if not isinstance(content, dict):
        raise DataError(f"graph file {str(path)!r} holds a {type(content).__name__}, not a Data or a dict of tensors.")
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
