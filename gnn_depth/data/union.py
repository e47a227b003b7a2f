"""Graphs from any container or file, checked one by one and laid side by side as one graph."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from pandas.api.types import infer_dtype
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gnn_depth.data.checks import LABELLED, MASKS, NUMBER, READ, DataError
from gnn_depth.graph import OF_EDGES

Arrays: TypeAlias = Mapping[str, Any]

ACCEPTED = (
    "give a Data of PyTorch Geometric, several in a list, Batch, DataLoader or data set, a dict "
    "with x, edge_index and y, or the path of an .npz or .pt file. Two tables are Tables(nodes, "
    "edges, label=...), of files or DataFrames. HeteroData has to_homogeneous(); "
    "torch_geometric.utils.from_networkx and from_dgl make a Data. Of a NeighborLoader give "
    "loader.data (MiniBatches draws parts of it), of a LightningDataModule what its loaders hold."
)


NPZ_HINT = "np.savez('graph.npz', x=x, y=y, edge_index=edge_index)"


def existing_file(name: str, path: str) -> None:
    """Refuse the path of a file that is not there."""
    found = Path(path).expanduser()
    if not found.is_file():
        fault = "is a folder" if found.is_dir() else "does not exist"
        raise DataError(
            f"{name} {path!r} {fault}: give the path of a file (looked in {str(Path.cwd())!r})."
        )


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


def graphs_in(data: Any, notes: list[str]) -> list[Arrays]:
    """The arrays of each graph in a container.

    Args:
        data: A graph, or a container of graphs.
        notes: Gets a sentence for each decision.

    Raises:
        DataError: It holds no graphs; the message names its type and what is accepted.
    """
    from torch_geometric.data import Batch, Data  # slow to import

    if isinstance(data, str | os.PathLike):
        data = read_arrays(Path(data).expanduser())
    if isinstance(data, DataLoader):
        notes.append("a loader's graphs are taken in the order of its data set, unshuffled.")
        data = data.dataset
    if isinstance(data, Mapping):
        return [data]
    if isinstance(data, Data):
        data = [data]
    if not isinstance(data, Sequence | Dataset):
        raise DataError(f"a {type(data).__name__} is not a graph: {ACCEPTED}")
    graphs: list[Arrays] = []
    for number, item in enumerate(iter(data)):
        if not isinstance(item, Data):
            raise DataError(f"item {number} is a {type(item).__name__}, not a graph: {ACCEPTED}")
        alone = item.to_data_list() if isinstance(item, Batch) else [item]
        graphs += [graph.to_dict() for graph in alone]
    return graphs


def as_tensor(name: str, value: object) -> Tensor:
    """A tensor, array, list or sparse matrix as a dense tensor in main memory.

    Raises:
        DataError: It holds no numbers; the message names it.
    """
    if hasattr(value, "toarray"):  # a sparse matrix of SciPy
        value = value.toarray()
    if not isinstance(value, Tensor):
        try:
            value = torch.tensor(np.asarray(value))
        except (TypeError, ValueError) as error:
            raise DataError(f"{name} must have numbers: {error}.") from None
    if value.is_complex():
        raise DataError(f"{name} is complex: give torch.view_as_real({name}).flatten(1).")
    return value.detach().cpu().to_dense()


@dataclass(eq=False)
class UnionGraph:
    """Several graphs as one.

    Attributes:
        arrays: Their joined arrays, by the names of PyTorch Geometric; y may be text.
        num_nodes: Number of all nodes.
        node_to_graph: The graph of each node; None for a single graph.
        per_graph: True if each graph has a target, not each node.
    """

    arrays: dict[str, Any]
    num_nodes: int
    node_to_graph: Tensor | None
    per_graph: bool


def union_of(
    graphs: Sequence[Arrays], edge_features: bool, notes: list[str], per_graph: bool | None = None
) -> UnionGraph:
    """Check each graph and whether all fit each other, and join them.

    Args:
        graphs: The arrays of each.
        edge_features: Read ``edge_attr``.
        notes: Gets a sentence for each decision.
        per_graph: For a trained model, whose predictions need neither targets nor masks: True if
            each graph has an output, false if each node has one. None reads the targets.

    Raises:
        DataError: A graph lacks what others have, or its arrays have different lengths; the
            message has its number.
    """
    if not graphs:
        raise DataError("there are no graphs.")
    each: list[dict[str, Any]] = []
    unread: set[str] = set()
    for number, given in enumerate(graphs):
        each.append(_checked(f"graph {number}", given, edge_features, per_graph))
        unread |= given.keys() - {*READ, "node_ids", NUMBER, LABELLED}
        # A part that some lack would shift the rows of all that follow.
        for key in {**each[0], **each[-1]}:
            first, other = each[0].get(key), each[-1].get(key)
            if first is None or other is None:
                lacks = 0 if first is None else number
                raise DataError(f"graph {lacks} has no {key}: give it to all graphs, or to none.")
            if key != "edge_index" and first.shape[1:] != other.shape[1:]:
                raise DataError(
                    f"{key} of graph {number} has shape {tuple(other.shape)}, and that of graph 0 "
                    f"{tuple(first.shape)}: they must have the same columns."
                )
    if unread:
        notes.append(f"not read: {', '.join(sorted(unread))}. Read are {', '.join(READ)}.")
    if per_graph is None:
        # Graphs of a single node each are taken as graphs with a target.
        per_graph = len(each) > 1 and all(len(one["y"]) == 1 for one in each)
    for number, one in enumerate(each):
        nodes = int(one["num_nodes"])
        if not per_graph and len(one["y"]) != nodes:
            raise DataError(
                f"graph {number} has {len(one['y'])} rows of targets: give one for each of its "
                f"{nodes} nodes, or in a list of graphs one for each graph."
            )
    arrays: dict[str, Any] = {}
    for name in each[0]:
        parts = [one[name] for one in each]
        if isinstance(parts[0], np.ndarray):  # text
            arrays[name] = np.concatenate(parts)
        else:
            arrays[name] = torch.cat(parts, int(name == "edge_index"))
    sizes = arrays.pop("num_nodes")
    # Nodes are numbered on from one graph to the next.
    edges_of = torch.tensor([one["edge_index"].shape[1] for one in each])
    arrays["edge_index"] += (sizes.cumsum(0) - sizes).repeat_interleave(edges_of)
    node_to_graph = None
    if len(each) > 1:
        node_to_graph = torch.arange(len(each)).repeat_interleave(sizes)
    return UnionGraph(arrays, int(sizes.sum()), node_to_graph, per_graph)


def _checked(
    name: str, given: Arrays, edge_features: bool, per_graph: bool | None
) -> dict[str, Any]:
    """The arrays of one graph that are read, and ``num_nodes``; see :func:`union_of`."""
    there = {key: value for key, value in given.items() if value is not None}
    needed, read = ["edge_index", "y"], ["x", *OF_EDGES, *MASKS, NUMBER, LABELLED]
    if per_graph is not None:
        needed, read = ["edge_index"], ["x", *OF_EDGES]
    if not edge_features:
        read.remove("edge_attr")
    for key in needed:
        if key not in there:
            has = ", ".join(sorted(there)) or "nothing"
            raise DataError(f"{name} has no {key}; it has {has}. Rename what is meant.")
    if "batch" in there:  # as one graph, norms would mix the graphs
        raise DataError(f"{name} has batch, so it is several graphs: give a Batch, or a list.")
    one = {key: as_tensor(key, there[key]) for key in read if key in there}
    edges = _edges(there["edge_index"])
    y: Any = torch.zeros(1)  # a stand-in
    if per_graph is None:
        y = _targets(there["y"])
    if "num_nodes" in there:
        nodes = int(there["num_nodes"])
    elif "x" in one:
        nodes = len(one["x"])
    else:
        # Nodes without edges at the end show in their targets only.
        nodes = max(len(y), int(edges.numpy().max(initial=-1)) + 1)
    if per_graph is False:
        y = torch.zeros(nodes)
    # An edge beyond its graph would join it to the next one.
    outside = ((edges < 0) | (edges >= nodes)).any(0).nonzero()
    if len(outside):
        edge = int(outside[0])
        raise DataError(
            f"{name}: edge {edge} is {tuple(edges[:, edge].tolist())}, and nodes are 0 to "
            f"{nodes - 1}."
        )
    rows_of = {"x": nodes, NUMBER: nodes, **dict.fromkeys(OF_EDGES, edges.shape[1])}
    for key, values in one.items():
        rows = rows_of.get(key, len(y))  # of masks, as many as targets
        if values.dim() == 0 or len(values) != rows:
            raise DataError(f"{name}: {key} must have {rows:,} rows, not {tuple(values.shape)}.")
    return one | {"edge_index": edges, "y": y, "num_nodes": torch.tensor([nodes])}


def _edges(value: Any) -> Tensor:
    edges = as_tensor("edge_index", value)
    if edges.numel() == 0:  # legal, and empty arrays of NumPy are floats unless told otherwise
        return torch.empty(2, 0, dtype=torch.long)
    is_integer = not edges.is_floating_point() and edges.dtype != torch.bool
    if not is_integer or edges.dim() != 2 or len(edges) != 2:
        raise DataError(
            f"edge_index must be integers of shape (2, edges), not {edges.dtype} "
            f"{tuple(edges.shape)}. torch_geometric.utils.to_edge_index reads a sparse matrix."
        )
    return edges.long()


def _targets(value: Any) -> Any:
    """Targets with a row for each: a tensor, or an array of text."""
    if not isinstance(value, Tensor) and infer_dtype(np.asarray(value), skipna=False) == "string":
        y: Any = np.asarray(value, object)
    else:
        y = as_tensor("y", value)
    if y.ndim == 0:  # the one target of a graph
        y = y[None]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    return y
