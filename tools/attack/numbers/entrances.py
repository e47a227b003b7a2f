"""The same graph through every entrance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gnn_depth.data import GraphSource, PyG, UserGraph

OF_NODES = ("x", "y", "train_mask", "val_mask", "test_mask")
OF_EDGES = ("edge_weight", "edge_attr")


def tensors(arrays: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: torch.as_tensor(value) for name, value in arrays.items()}


class Stored(list):
    """A data set as those of PyTorch Geometric: a list of the graphs in a file."""

    def __init__(self, path: str) -> None:
        super().__init__([torch.load(path, weights_only=False)])


def of_npz(arrays: dict[str, Any], folder: Path, **options: Any) -> UserGraph:
    np.savez(folder / "graph.npz", **{name: np.asarray(value) for name, value in arrays.items()})
    return UserGraph(str(folder / "graph.npz"), **options)


def of_pt(arrays: dict[str, Any], folder: Path, **options: Any) -> UserGraph:
    torch.save(Data(**tensors(arrays)), folder / "graph.pt")
    return UserGraph(str(folder / "graph.pt"), **options)


def of_data_set(arrays: dict[str, Any], folder: Path, **options: Any) -> PyG:
    torch.save(Data(**tensors(arrays)), folder / "stored.pt")
    return PyG(f"{__name__}.Stored", options={"path": str(folder / "stored.pt")}, **options)


def of_networkx(arrays: dict[str, Any], folder: Path, **options: Any) -> GraphSource:
    graph = nx.MultiDiGraph()
    for node in range(len(arrays["y"])):
        at_node = {name: np.asarray(arrays[name])[node] for name in OF_NODES if name in arrays}
        graph.add_node(node, **at_node)
    for edge, (source, target) in enumerate(np.asarray(arrays["edge_index"]).T.tolist()):
        of_edge = {name: np.asarray(arrays[name])[edge] for name in OF_EDGES if name in arrays}
        graph.add_edge(source, target, **of_edge)
    return GraphSource(graph, **options)


def of_tables(arrays: dict[str, Any], folder: Path, **options: Any) -> UserGraph:
    numbers = {name: np.asarray(value) for name, value in arrays.items()}
    y = numbers["y"]
    nodes = pd.DataFrame({"id": np.arange(len(y)), "y": y})
    for column in range(numbers["x"].shape[1]):
        nodes[f"x{column}"] = numbers["x"][:, column]
    for name in OF_NODES[2:]:
        if name in numbers:
            nodes[name] = numbers[name]
    edges = pd.DataFrame(numbers["edge_index"].T, columns=["source", "target"])
    roles: dict[str, Any] = {"targets": ["y"]} if y.dtype.kind == "f" else {"label": "y"}
    if "edge_weight" in numbers:
        edges["weight"] = numbers["edge_weight"]
        roles["edge_weight"] = "weight"
    if "edge_attr" in numbers:
        roles["edge_features"] = [f"e{column}" for column in range(numbers["edge_attr"].shape[1])]
        edges[roles["edge_features"]] = numbers["edge_attr"]
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    return UserGraph(str(folder / "edges.csv"), str(folder / "nodes.csv"), **roles, **options)


Entrance = Callable[..., GraphSource]

#: Makes a data set of arrays by the names of PyTorch Geometric, a folder, and options.
ENTRANCES: dict[str, Entrance] = {
    "Data": lambda arrays, folder, **options: GraphSource(Data(**tensors(arrays)), **options),
    "list": lambda arrays, folder, **options: GraphSource([Data(**tensors(arrays))], **options),
    "Batch": lambda arrays, folder, **options: GraphSource(
        Batch.from_data_list([Data(**tensors(arrays))]), **options
    ),
    "DataLoader": lambda arrays, folder, **options: GraphSource(
        DataLoader([Data(**tensors(arrays))]), **options
    ),
    "dict": lambda arrays, folder, **options: GraphSource(arrays, **options),
    "npz": of_npz,
    "pt": of_pt,
    "data set": of_data_set,
    "networkx": of_networkx,
    "tables": of_tables,
}
