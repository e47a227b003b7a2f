"""Containers of graphs in Python: each becomes arrays by the names of PyTorch Geometric."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch.utils.data import DataLoader

from gnn_depth.data.checks import DataError, refuse_pointer
from gnn_depth.data.graph_files import NETWORKX, Rows, read_networkx, rows_of
from gnn_depth.data.user_arrays import SUFFIXES, read_arrays

if TYPE_CHECKING:
    import networkx

Arrays: TypeAlias = Mapping[str, Any]

ONE_GRAPH = "Data(x=x, edge_index=edge_index, y=y)"
#: How to make graphs out of what holds some, by the name of its class or of a base of it.
WAYS_OUT = {
    "HeteroData": "its nodes and edges have several types, and here they have one: give "
    "data.to_homogeneous().",
    "TemporalData": "give the graph of a moment, or of all times, as a Data.",
    "DGLGraph": "give torch_geometric.utils.from_dgl(graph), with x and y.",
    "LightningDataModule": "give the graphs in it, or their DataLoader.",
    "DataFrame": "give both tables, UserGraph(edges, nodes=nodes, label=...).",
    "Tensor": f"give {ONE_GRAPH}.",
    "ndarray": f"give {ONE_GRAPH}.",
}
ACCEPTED = (
    "give a Data of PyTorch Geometric, several in a list, Batch, DataLoader or data set, a dict "
    "with x, edge_index and y, a graph of networkx, or the path of an .npz or .pt file."
)


def graphs_in(data: Any, notes: list[str]) -> list[Arrays]:
    """The arrays of each graph that something holds; a ``Batch`` counts as one, with its ``batch``.

    Raises:
        DataError: It holds no graphs; the message names its type and the way out.
    """
    if isinstance(data, str | os.PathLike):
        return _in_file(Path(data).expanduser(), notes)
    if isinstance(data, DataLoader):
        return _in_loader(data, notes)
    if isinstance(data, Mapping):
        return [data]
    # A graph may have a length too, and what has a way out must not be taken apart.
    if _is_graph(data) or _way_out(data) or not hasattr(data, "__len__"):
        return [_arrays(data, "", notes)]
    graphs = []
    for number, item in enumerate(data):
        graphs.append(_arrays(item, f"item {number} of the {type(data).__name__}: ", notes))
    return graphs


def _in_file(path: Path, notes: list[str]) -> list[Arrays]:
    if path.is_file():
        refuse_pointer(path)
    if path.name.lower().endswith(NETWORKX):
        return [_of_networkx(read_networkx(path), "", notes)]
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(
            f"{str(path)!r} must end in {', '.join((*SUFFIXES, *NETWORKX))}. Tables, matrices and "
            "lists of edges are given as UserGraph(edges, nodes=..., label=...)."
        )
    return graphs_in(read_arrays(path, notes), notes)


def _in_loader(loader: DataLoader[Any], notes: list[str]) -> list[Arrays]:
    whole = getattr(loader, "data", None)  # of NeighborLoader and its like
    if whole is not None:
        raise DataError(
            f"a {type(loader).__name__} draws parts of one graph: give the graph, loader.data. "
            "MiniBatches draws parts of it."
        )
    notes.append(
        "the graphs of the loader are taken in their order; batch_size makes batches of them."
    )
    return graphs_in(loader.dataset, notes)


def _is_graph(data: Any) -> bool:
    from torch_geometric.data import Data  # slow to import

    return isinstance(data, Data) or _is_networkx(data)


def _is_networkx(data: Any) -> bool:
    networkx = sys.modules.get("networkx")  # who has a graph of it has imported it
    return networkx is not None and isinstance(data, networkx.Graph)


def _way_out(data: Any) -> str:
    # By name, so that none of the libraries must be there, and subclasses count too.
    for base in type(data).__mro__:
        if base.__name__ in WAYS_OUT:
            return WAYS_OUT[base.__name__]
    return ""


def _arrays(data: Any, where: str, notes: list[str]) -> Arrays:
    if not _is_graph(data):
        raise DataError(f"{where}a {type(data).__name__} is no graph: {_way_out(data) or ACCEPTED}")
    if _is_networkx(data):
        return _of_networkx(data, where, notes)
    return dict(data.to_dict())


def _of_networkx(graph: "networkx.Graph", where: str, notes: list[str]) -> Arrays:
    """Attributes of nodes and edges as arrays."""
    nodes, edges = rows_of(graph)
    names = [name for name, _ in nodes]
    number = {name: position for position, name in enumerate(names)}
    ends = [(number[source], number[target]) for (source, target), _ in edges]
    # Of shape (2, 0) without edges.
    arrays: dict[str, Any] = {"edge_index": np.array(ends, np.int64).reshape(-1, 2).T}
    arrays |= _attributes(f"{where}node", nodes)
    of_edges = _attributes(f"{where}edge", edges)
    if "weight" in of_edges and "edge_weight" not in of_edges:
        of_edges["edge_weight"] = of_edges.pop("weight")
        notes.append("the attribute weight of the edges is read as edge_weight.")
    if names != list(range(len(names))):
        if not all(isinstance(name, int) for name in names):
            names = [str(name) for name in names]
        arrays["node_ids"] = np.array(names, object)
    return {"num_nodes": len(names), **arrays, **of_edges}


def _attributes(what: str, rows: Rows) -> dict[str, Any]:
    """The attributes of nodes or edges, each a list with a value for every one."""
    found: dict[str, list[Any]] = {}
    for count, (item, attributes) in enumerate(rows):
        for name in dict.fromkeys([*found, *attributes]):
            values = found.setdefault(name, [])
            if name not in attributes or len(values) < count:
                raise DataError(
                    f"{what} {item!r} has other attributes than the ones before it: {name} must "
                    "be at all, or at none."
                )
            values.append(attributes[name])
    return found
