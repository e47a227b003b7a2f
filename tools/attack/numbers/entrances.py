"""The same graph through every entrance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gnn_depth.data import GraphSource, PyG, UserGraph
from gnn_depth.data.source import CheckedGraphs


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


Entrance = Callable[..., CheckedGraphs]

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
}
