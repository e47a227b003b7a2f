"""Graphs from any container, checked one by one and laid side by side as one graph."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from gnn_depth.data.array_files import read_arrays
from gnn_depth.data.checks import MASKS, READ, DataError
from gnn_depth.graph import OF_EDGES

Arrays: TypeAlias = Mapping[str, Any]

ACCEPTED = (
    "give a Data of PyTorch Geometric, several in a list, Batch, DataLoader or data set, a dict "
    "with x, edge_index and y, or the path of an .npz or .pt file. Two tables are Tables(nodes, "
    "edges, label=...), of files or DataFrames. HeteroData has to_homogeneous(); "
    "torch_geometric.utils.from_networkx and from_dgl make a Data."
)


def graphs_in(data: Any, notes: list[str]) -> list[Arrays]:
    """The arrays of each graph in a container; a ``Batch`` counts as one, with its ``batch``.

    Args:
        data: A graph, or a container of graphs.
        notes: Gets a sentence for each decision.

    Raises:
        DataError: It holds no graphs; the message names its type and what is accepted.
    """
    from torch_geometric.data import Data, Dataset  # slow to import

    if isinstance(data, str | os.PathLike):
        data = read_arrays(Path(data).expanduser())
    if isinstance(data, DataLoader):
        whole = getattr(data, "data", None)  # of NeighborLoader and its like
        if whole is not None:
            raise DataError(
                f"a {type(data).__name__} draws parts of one graph: give the graph, loader.data. "
                "MiniBatches draws parts of it."
            )
        notes.append("a loader's graphs are taken in the order of its data set, unshuffled.")
        data = data.dataset
    if isinstance(data, Mapping):
        return [data]
    if isinstance(data, Data):
        return [data.to_dict()]
    if not isinstance(data, Sequence | Dataset | torch.utils.data.Dataset):
        raise DataError(f"a {type(data).__name__} is no graph: {ACCEPTED}")
    graphs: list[Arrays] = []
    items: Any = data
    for number, item in enumerate(items):
        if not isinstance(item, Data):
            raise DataError(f"item {number} is a {type(item).__name__}, not a graph: {ACCEPTED}")
        graphs.append(item.to_dict())
    return graphs


def is_text(value: object) -> bool:
    """True for an array or list of text, such as the names of classes."""
    if isinstance(value, Tensor) or hasattr(value, "toarray"):
        return False
    array = np.asarray(value)
    return array.dtype.kind in "US" or (
        array.dtype.kind == "O" and all(isinstance(item, str) for item in array.flat)
    )


def as_tensor(name: str, value: object) -> Tensor:
    """A tensor, array, list or sparse matrix as a dense tensor in main memory.

    Raises:
        DataError: It holds no numbers; the message names it.
    """
    if hasattr(value, "toarray"):  # a sparse matrix of SciPy
        value = value.toarray()
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        kinds: dict[str, Any] = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
        dtype = kinds.get(array.dtype.kind)
        if array.dtype.kind == "f" and array.dtype.itemsize <= 4:
            dtype = np.float32  # float64 stays, so that lost digits can be reported
        if dtype is None or array.dtype == np.uint64:
            raise DataError(f"{name} has values of the type {array.dtype}, and must have numbers.")
        # The copy has the native byte order, and may be written to.
        value = torch.from_numpy(np.array(array, dtype, order="C"))
    if value.is_complex():
        raise DataError(f"{name} is complex: give torch.view_as_real({name}).flatten(1).")
    if value.layout != torch.strided:
        value = value.to_dense()
    return value.detach().cpu()


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
    graphs: Sequence[Arrays],
    edge_features: bool,
    notes: list[str],
    per_graph: bool | None = None,
) -> UnionGraph:
    """Check each graph and whether all fit each other, and join them.

    Args:
        graphs: The arrays of each; one with ``batch`` holds several graphs.
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
    each: list[_OneGraph] = []
    unread: dict[str, None] = {}
    for number, given in enumerate(graphs):
        name = f"graph {number}" if len(graphs) > 1 else "the graph"
        one = _OneGraph(name, given, edge_features, per_graph)
        each.append(one)
        unread |= dict.fromkeys(given.keys() - {*READ, "ptr", "node_ids"})
        if number:  # a part that some lack would shift the rows of all that follow
            each[0].check_same_parts(one)
    if unread:
        notes.append(f"not read: {', '.join(sorted(unread))}. Read are {', '.join(READ)}.")
    count = sum(one.num_graphs for one in each)
    num_nodes = sum(one.num_nodes for one in each)
    arrays: dict[str, Any] = {}
    for name in each[0].arrays:
        parts = [one.arrays[name] for one in each]
        if isinstance(parts[0], np.ndarray):  # text
            arrays[name] = np.concatenate(parts)
        else:
            arrays[name] = torch.cat(parts)
    # Nodes and graphs are numbered on from one given graph to the next.
    edges, owners = [], []
    node_offset = graph_offset = 0
    for one in each:
        edges.append(one.edge_index + node_offset)
        owners.append(one.owner + graph_offset)
        node_offset += one.num_nodes
        graph_offset += one.num_graphs
    arrays["edge_index"] = torch.cat(edges, 1)
    node_to_graph = None
    if count > 1:
        node_to_graph = torch.cat(owners)
    if per_graph is None:
        per_graph = _have_graphs_targets(each, count, notes)
    return UnionGraph(arrays, num_nodes, node_to_graph, per_graph)


class _OneGraph:
    """The checked arrays of one given graph; all but ``edge_index`` have rows.

    Args:
        name: What messages call it.
        given: Its arrays, as they were given.
        edge_features: Read ``edge_attr``.
        per_graph: See :func:`union_of`.
    """

    def __init__(
        self, name: str, given: Arrays, edge_features: bool, per_graph: bool | None
    ) -> None:
        self.name = name
        there = {key: value for key, value in given.items() if value is not None}
        reads_targets = per_graph is None
        for key in ("edge_index", "y"):
            if key not in there and (key != "y" or reads_targets):
                has = ", ".join(sorted(there)) or "nothing"
                raise DataError(f"{name} has no {key}; it has {has}. Rename what is meant.")
        self.edge_index = _edges(there["edge_index"])
        self.arrays: dict[str, Any] = {}
        masks = MASKS if reads_targets else ()
        for key in ("x", *OF_EDGES, *masks):
            if key in there and (edge_features or key != "edge_attr"):
                self.arrays[key] = as_tensor(key, there[key])
        y = _targets(there["y"]) if reads_targets else None
        self.num_nodes = self._count_nodes(there, y)
        self.owner = torch.zeros(self.num_nodes, dtype=torch.long)
        self.num_graphs = 1
        if "batch" in there:  # a Batch: the number of each node's graph
            self.owner = as_tensor("batch", there["batch"]).long()
            if len(self.owner):
                self.num_graphs = int(self.owner.max()) + 1
        if y is None:  # a stand-in
            y = torch.zeros(self.num_graphs if per_graph else self.num_nodes)
        self.arrays["y"] = y
        self._check()

    def _count_nodes(self, there: Mapping[str, Any], y: Any) -> int:
        if "num_nodes" in there:
            return int(there["num_nodes"])
        if "x" in self.arrays:
            return len(self.arrays["x"])
        if "batch" in there:
            return len(there["batch"])
        last = 0
        if self.edge_index.numel():
            last = int(self.edge_index.max()) + 1
        if y is None or len(y) == 1:  # it may be the target of the graph
            return last
        # Nodes without edges at the end show in their targets only.
        return max(last, len(y))

    def _check(self) -> None:
        """Check the lengths of all arrays, and that edges stay inside their graph."""
        # An edge beyond its graph would join it to the next one.
        outside = ((self.edge_index < 0) | (self.edge_index >= self.num_nodes)).any(0).nonzero()
        if len(outside):
            edge = int(outside[0])
            raise DataError(
                f"{self.name}: edge {edge} is {tuple(self.edge_index[:, edge].tolist())}, and "
                f"nodes are 0 to {self.num_nodes - 1}."
            )
        owner = self.owner
        if len(owner) != self.num_nodes or (owner.diff() < 0).any() or (owner < 0).any():
            raise DataError(
                f"{self.name}: batch must have the number of each node's graph, from 0 on and in "
                f"order, for {self.num_nodes} nodes."
            )
        source, target = owner[self.edge_index]
        if (source != target).any():
            edge = int((source != target).nonzero()[0])
            raise DataError(
                f"{self.name}: edge {edge} joins the graphs {int(source[edge])} and "
                f"{int(target[edge])} of batch."
            )
        for key, values in self.arrays.items():
            if key == "y":
                continue
            rows, what = self.num_nodes, "node"
            if key in OF_EDGES:
                rows, what = self.edge_index.shape[1], "edge"
            elif key in MASKS:
                rows, what = len(self.arrays["y"]), "target"
            if values.dim() == 0 or len(values) != rows:
                raise DataError(
                    f"{self.name}: {key} must have one row per {what} ({rows:,}), not shape "
                    f"{tuple(values.shape)}."
                )

    def check_same_parts(self, other: "_OneGraph") -> None:
        """Refuse another graph that lacks or adds an array, or has other columns."""
        for key in dict.fromkeys([*self.arrays, *other.arrays]):
            for has, lacks in ((self, other), (other, self)):
                if key not in lacks.arrays:
                    raise DataError(
                        f"{lacks.name} has no {key}, and {has.name} has one: give it to all "
                        "graphs, or to none."
                    )
            mine, its = self.arrays[key], other.arrays[key]
            if type(mine) is not type(its) or mine.shape[1:] != its.shape[1:]:
                raise DataError(
                    f"{key} of {other.name} has shape {tuple(its.shape)}, and that of {self.name} "
                    f"{tuple(mine.shape)}: they must have the same columns."
                )


def _edges(value: Any) -> Tensor:
    if isinstance(value, Tensor) and value.layout != torch.strided:
        raise DataError(
            "edge_index is a sparse matrix: give torch_geometric.utils.to_edge_index(matrix)[0]."
        )
    edges = as_tensor("edge_index", value)
    if edges.numel() == 0:  # legal, and empty arrays of NumPy are floats unless told otherwise
        return torch.empty(2, 0, dtype=torch.long)
    is_integer = not edges.is_floating_point() and edges.dtype != torch.bool
    if not is_integer or edges.dim() != 2 or 2 not in edges.shape:
        raise DataError(
            f"edge_index must be integers of shape (2, edges) or (edges, 2), not {edges.dtype} "
            f"{tuple(edges.shape)}."
        )
    if len(edges) != 2:  # a list of pairs; two edges are read in PyTorch Geometric's layout
        edges = edges.T
    return edges.long().contiguous()


def _targets(value: Any) -> Any:
    """Targets with a row for each: a tensor, or an array of text."""
    y: Any = np.asarray(value, object) if is_text(value) else as_tensor("y", value)
    if y.ndim == 0:  # the one target of a graph
        y = y[None]
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim > 2:
        raise DataError(
            "y must be classes (integers or text, shape (rows,)), labels of 0 and 1 (shape (rows, "
            f"labels)), or numbers (floats), not of shape {tuple(y.shape)}."
        )
    return y


def _have_graphs_targets(each: Sequence[_OneGraph], count: int, notes: list[str]) -> bool:
    """True if each graph has a target; false if each node has one."""
    # Graphs of a single node each are taken as graphs with a target.
    if count > 1 and all(len(one.arrays["y"]) == one.num_graphs for one in each):
        shape = tuple(each[0].arrays["y"].shape)
        if shape == (1, each[0].num_nodes) and shape != (1, 1):
            notes.append(
                f"y of shape {shape} is read as {shape[1]} targets of each graph. If they are "
                "those of its nodes, give y.flatten()."
            )
        return True
    for one in each:
        targets = len(one.arrays["y"])
        if targets != one.num_nodes:
            raise DataError(
                f"{one.name} has {targets} rows of targets: give one for each of its "
                f"{one.num_nodes} nodes, or in a list of graphs one for each graph."
            )
    return False
