"""Lay the graphs of one source side by side: what each of them must have, and the joined arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gnn_depth.data.checks import MASKS, READ, DataError
from gnn_depth.data.containers import Arrays
from gnn_depth.data.tensors import as_tensor, is_text
from gnn_depth.graph import OF_EDGES

#: Names that people give to what is read under another one.
OTHER_NAMES = {
    "features": "x",
    "feat": "x",
    "label": "y",
    "labels": "y",
    "edges": "edge_index",
    "weight": "edge_weight",
    "weights": "edge_weight",
    "edge_features": "edge_attr",
    "valid_mask": "val_mask",
    "validation_mask": "val_mask",
    "dev_mask": "val_mask",
}
#: Words for the three parts, which names of lists of rows begin or end with: train_idx, idx_val.
PARTS = ("train", "val", "valid", "test")
LISTS = ("idx", "index", "indices", "id", "ids", "nodes", "nid", "split")


StandIn: TypeAlias = Literal["node", "graph"]


@dataclass(eq=False)
class Joined:
    """Several graphs as one.

    Attributes:
        arrays: Their joined arrays, by the names of PyTorch Geometric; y may be text.
        num_nodes: Number of all nodes.
        node_to_graph: The graph of each node; None for a single graph.
        per_graph: True if each graph has a target, not each node.
        rows: Number of targets of each of the given graphs.
    """

    arrays: dict[str, Any]
    num_nodes: int
    node_to_graph: Tensor | None
    per_graph: bool
    rows: list[int]


def side_by_side(
    graphs: Sequence[Arrays],
    edge_features: bool,
    notes: list[str],
    stand_in: StandIn | None = None,
) -> Joined:
    """Check that graphs fit each other, and join them.

    Args:
        graphs: The arrays of each; one with ``batch`` holds several graphs.
        edge_features: Join ``edge_attr``.
        notes: Gets a sentence for each decision.
        stand_in: What has a target that stands in for the graphs' own targets and masks, which
            are not read: each ``node`` or each ``graph``.

    Raises:
        DataError: A graph lacks what others have, or its arrays have different lengths; the
            message has its number.
    """
    if not graphs:
        raise DataError("there are no graphs.")
    several = len(graphs) > 1
    each = []
    for number, given in enumerate(graphs):
        name = f"graph {number}" if several else "the graph"
        one = _OneGraph(name, given, edge_features, stand_in)
        each.append(one)
    _note_other_names(graphs, notes)
    first = each[0]
    for one in each[1:]:  # a part that some lack would shift the rows of all that follow
        first.check_same_parts(one)
    count = sum(one.num_graphs for one in each)
    num_nodes = sum(one.num_nodes for one in each)
    per_graph = stand_in == "graph"
    if stand_in is None:
        per_graph = _have_graphs_targets(each, count, num_nodes, notes)
    arrays: dict[str, Any] = {}
    for name in first.arrays:
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
    return Joined(arrays, num_nodes, node_to_graph, per_graph, [len(one.y) for one in each])


class _OneGraph:
    """The arrays of one given graph, of which all but ``edge_index`` have rows.

    Args:
        name: What messages call it.
        given: Its arrays, as they were given.
        edge_features: Read ``edge_attr``.
        stand_in: See :func:`side_by_side`.
    """

    def __init__(
        self, name: str, given: Arrays, edge_features: bool, stand_in: StandIn | None
    ) -> None:
        self.name = name
        there = {key: value for key, value in given.items() if value is not None}
        needed = ("edge_index",) if stand_in else ("edge_index", "y")
        missing = [key for key in needed if key not in there]
        if missing:
            raise DataError(self._without(missing, there))
        self.edge_index = _edges(there["edge_index"])
        self.y: Any = ()
        if "y" in there:
            self.y = _targets(there["y"])
        self.arrays: dict[str, Any] = {}
        masks = () if stand_in else MASKS
        for key in ("x", *OF_EDGES, *masks):
            if key in there and (edge_features or key != "edge_attr"):
                self.arrays[key] = as_tensor(key, there[key])
        self.num_nodes = self._count_nodes(there)
        self.num_graphs = 1
        self.owner = torch.zeros(self.num_nodes, dtype=torch.long)
        if "batch" in there:  # a Batch: the number of each node's graph
            given_owner = as_tensor("batch", there["batch"])
            self.owner = given_owner.long()
            if ((self.owner != given_owner) | (self.owner < 0)).any():
                raise DataError(f"{self.name}: batch must have whole numbers from 0 on.")
            if len(self.owner):
                self.num_graphs = int(self.owner.max()) + 1
        if stand_in == "graph":
            self.y = torch.zeros(self.num_graphs)
        elif stand_in == "node":
            self.y = torch.zeros(self.num_nodes)
        self._check_lengths()
        self.arrays["y"] = self.y

    def _without(self, missing: list[str], there: Mapping[str, Any]) -> str:
        """The message for a graph that lacks some arrays, with the likeliest way out."""
        way_out = ""
        if missing == ["y"]:
            way_out = " Give a target for each node: y of a Data, or the attribute y of the nodes."
        for key, name in OTHER_NAMES.items():
            if name in missing and key in there:
                way_out = f" Rename {key}: it is read as {name}."
                break
        if "adj_t" in there:
            way_out = " Give edge_index beside adj_t: do not apply ToSparseTensor."
        has = ", ".join(sorted(there)) or "nothing"
        return f"{self.name} has no {' and no '.join(missing)}; it has {has}.{way_out}"

    def _count_nodes(self, there: Mapping[str, Any]) -> int:
        if "num_nodes" in there:
            given = there["num_nodes"]
            try:
                whole = int(given)
            except (TypeError, ValueError):  # neither a number nor a tensor of one
                whole = -1
            if isinstance(given, str) or whole < 0 or bool(whole != given):
                raise DataError(
                    f"{self.name}: num_nodes must be a whole number from 0 on, not {given!r}."
                )
            return whole
        if "x" in self.arrays:
            return len(self.arrays["x"])
        if "batch" in there:
            return len(there["batch"])
        # Nodes without edges at the end can be told by their targets only.
        last = 0
        if self.edge_index.numel():
            last = int(self.edge_index.max()) + 1
        if len(self.y) == 1:  # it may be the target of the graph
            return last
        return max(last, len(self.y))

    def _check_lengths(self) -> None:
        edges = self.edge_index.shape[1]
        # An edge beyond its graph would join it to the next one.
        outside = ((self.edge_index < 0) | (self.edge_index >= self.num_nodes)).any(0).nonzero()
        if len(outside):
            edge = int(outside[0])
            nodes = f"nodes run from 0 to {self.num_nodes - 1}"
            if not self.num_nodes:
                nodes = "there are no nodes"
            raise DataError(
                f"{self.name}: edge {edge} is {tuple(self.edge_index[:, edge].tolist())}, but "
                f"{nodes}."
            )
        if len(self.owner) == self.num_nodes and self.num_graphs > 1:
            source, target = self.owner[self.edge_index]
            crossing = (source != target).nonzero()
            if len(crossing):
                edge = int(crossing[0])
                raise DataError(
                    f"{self.name}: edge {edge} is {tuple(self.edge_index[:, edge].tolist())}, and "
                    f"joins the graphs {int(source[edge])} and {int(target[edge])} of batch."
                )
        if len(self.owner) != self.num_nodes or (self.owner.diff() < 0).any():
            raise DataError(
                f"{self.name}: batch must have the number of each node's graph, in order, for "
                f"{self.num_nodes} nodes."
            )
        for key, values in self.arrays.items():
            rows, what = self.num_nodes, "node"
            if key in OF_EDGES:
                rows, what = edges, "edge"
            elif key in MASKS:
                rows, what = len(self.y), "target"
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


def _have_graphs_targets(
    each: Sequence[_OneGraph], count: int, num_nodes: int, notes: list[str]
) -> bool:
    """True if each graph has a target; false if each node has one."""
    # Targets of nodes that were laid flat look like several targets of a graph.
    lie_flat = [one.y.ndim == 2 and one.y.shape == (1, one.num_nodes) for one in each]
    if all(lie_flat) and num_nodes > count:
        shape = tuple(each[0].y.shape)
        if count == 1:
            raise DataError(f"y has shape {shape}, a single row: give y.flatten().")
        notes.append(
            f"y of shape {shape} is read as {shape[1]} targets of each graph. If they are those "
            "of its nodes, give y.flatten()."
        )
    # Graphs of a single node each are taken as graphs with a target.
    if count > 1 and all(len(one.y) == one.num_graphs for one in each):
        return True
    for one in each:
        if len(one.y) != one.num_nodes:
            wanted = f"one for each of its {one.num_nodes} nodes"
            if count > 1:
                wanted = f"one, or {wanted}"
            raise DataError(f"{one.name} has {len(one.y)} targets: give {wanted}.")
    return False


def _note_other_names(graphs: Sequence[Arrays], notes: list[str]) -> None:
    """Tell which arrays look like one that is read, and are not."""
    names = set().union(*graphs)
    splits = []
    for name in sorted(names - set(READ)):
        words = name.lower().split("_")
        if set(words) & {*PARTS, "split"} and set(words) & set(LISTS):
            splits.append(name)
    if splits:
        verb = "is" if len(splits) == 1 else "are"
        notes.append(
            f"{' and '.join(splits)} {verb} not read. To use them as the split, give "
            "split={'train': ..., 'val': ..., 'test': ...}, or masks."
        )
    for name in sorted(names - set(READ) - set(splits)):
        meant = OTHER_NAMES.get(name)
        # 0.85 finds edge_weights and train_masks, and leaves edge_time and x_mean alone.
        for near in get_close_matches(name, READ, 1, 0.85):
            meant = near
        if meant and meant not in names:
            notes.append(f"{name} is not read. If it is meant as {meant}, rename it.")
