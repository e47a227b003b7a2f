"""Every entrance of data against every other, for the same drawn graphs, complete or not.

The record must be identical, or the refusal must be the same sentence.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gnn_depth.data import DataError, GraphSource, PyG, UserGraph
from tools.attack.numbers import Trial, TrialInput

SINGLE, SEVERAL = 250, 150  # graphs, and lists of graphs
NAN = float("nan")

Arrays = dict[str, Any]  # by the names of PyTorch Geometric


# ---- the entrances ----


def data_of(arrays: Arrays) -> Data:
    return Data(**{name: torch.as_tensor(value) for name, value in arrays.items()})


class Stored(list):
    """A data set as those of PyTorch Geometric: a list of the graphs in a file."""

    def __init__(self, path: str) -> None:
        super().__init__([torch.load(path, weights_only=False)])


def of_npz(arrays: Arrays, folder: Path, **options: Any) -> Any:
    np.savez(folder / "graph.npz", **arrays)
    return UserGraph(str(folder / "graph.npz"), **options)


def of_pt(arrays: Arrays, folder: Path, **options: Any) -> Any:
    torch.save(data_of(arrays), folder / "graph.pt")
    return UserGraph(str(folder / "graph.pt"), **options)


def of_data_set(arrays: Arrays, folder: Path, **options: Any) -> Any:
    torch.save(data_of(arrays), folder / "stored.pt")
    return PyG(f"{__name__}.Stored", options={"path": str(folder / "stored.pt")}, **options)


def of_object(container: Callable[[Data], Any]) -> Callable[..., Any]:
    """The entrance of a graph in some container."""
    return lambda arrays, _, **options: GraphSource(container(data_of(arrays)), **options)


#: Makes a data set of arrays, a folder, and options.
ENTRANCES: dict[str, Callable[..., Any]] = {
    "Data": of_object(lambda data: data),
    "list": of_object(lambda data: [data]),
    "Batch": of_object(lambda data: Batch.from_data_list([data])),
    "DataLoader": of_object(lambda data: DataLoader([data])),
    "dict": lambda arrays, _, **options: GraphSource(arrays, **options),
    "npz": of_npz,
    "pt": of_pt,
    "data set": of_data_set,
}


# ---- what is drawn ----

#: What may be wrong in one place of an array.
FLAWS = {
    "a NaN feature": ("x", NAN),
    "a feature beyond float32": ("x", 1e300),
    "a negative class": ("y", -2),
    "an infinite target": ("y", float("inf")),
    "an edge that leaves the graph": ("edge_index", 1000),
    "a negative weight": ("edge_weight", -0.25),
}


def graph(draw: TrialInput) -> Arrays:
    """The arrays of a graph. Numbers are multiples of 1/4, which every file keeps."""
    random = draw.random
    nodes = int(random.choice([1, 3, 12, 30]))
    edges = int(random.integers(1, 3 * nodes + 1))
    targets = {
        "classes": random.integers(int(random.integers(1, 5)), size=nodes),
        "some classes": random.integers(-1, 3, size=nodes),
        "signs": random.integers(2, size=nodes) * 2 - 1,
        "whole floats": random.integers(3, size=nodes).astype(float),
        "large classes": random.integers(3, size=nodes) + 2**24,
        "numbers": random.integers(-9, 9, nodes) / 4,
        "some numbers": np.where(random.random(nodes) < 0.3, NAN, 0.25),
        "no targets": np.full(nodes, NAN),
    }
    part = random.integers(4, size=nodes)
    arrays: Arrays = {
        "x": random.integers(-9, 9, (nodes, 3)) / 4,
        "y": targets[draw.one_of(*targets)],
        "edge_index": random.integers(nodes, size=(2, edges)),
        "edge_weight": random.integers(1, 9, edges) / 4,
        "edge_attr": random.integers(-9, 9, (edges, 2)) / 4,
        "train_mask": part < 2,
        "val_mask": part == 2,
        "test_mask": part == 3,
    }
    missing = draw.one_of("nothing", "edge_weight", "edge_attr", "masks", "val_mask", "test_mask")
    for name in list(arrays):
        if missing == name or (missing == "masks" and name.endswith("_mask")):
            del arrays[name]
    if "val_mask" in arrays and draw.chance(0.2, "overlap"):
        arrays["val_mask"] = part <= 2
    if draw.chance(0.5, "a flaw"):
        name, value = FLAWS[draw.one_of(*FLAWS)]
        if name in arrays:
            array = arrays[name].astype(np.result_type(arrays[name], type(value)))
            array.flat[random.integers(array.size)] = value
            arrays[name] = array
    return arrays


def several(draw: TrialInput) -> list[Data]:
    """Several graphs; the last may lack what the others have, or have it otherwise."""
    random = draw.random
    shape = {"nodes": (), "a target of each graph": (1,), "three labels": (1, 3)}
    kind = draw.one_of(*shape)
    graphs = []
    for _ in range(int(random.integers(2, 6))):
        nodes, edges = random.integers(1, 7), random.integers(1, 9)
        one = {
            "x": random.integers(-9, 9, (nodes, 2)) / 4,
            "y": random.integers(2, size=shape[kind] or nodes),
            "edge_index": random.integers(nodes, size=(2, edges)),
        }
        graphs.append(one)
    last = graphs[-1]
    flaw = draw.one_of("nothing", "nothing", "no y", "other columns", "an edge that leaves", "NaN")
    if flaw == "no y":
        del last["y"]
    elif flaw == "other columns":
        last["x"] = last["x"][:, :1]
    elif flaw == "an edge that leaves":
        last["edge_index"][0, 0] = len(last["x"])
    elif flaw == "NaN":
        last["x"][0, 0] = NAN
    return [data_of(arrays) for arrays in graphs]


# ---- the comparison ----


def trials(seed: int) -> Iterator[Trial]:
    """Bring each drawn graph through every entrance, and compare what comes out."""
    with TemporaryDirectory() as folder:
        for number in range(SINGLE):
            draw = TrialInput([seed, number])
            arrays = graph(draw)
            found = {}
            for name, entrance in ENTRANCES.items():
                found[name] = answer(entrance, arrays, Path(folder))
            yield f"graph {number}: {draw.words}", _difference(found)
    for number in range(SEVERAL):
        draw = TrialInput([seed, number, 1])
        data = several(draw)
        found = {
            "list": answer(GraphSource, data),
            "tuple": answer(GraphSource, tuple(data)),
            "DataLoader": answer(GraphSource, DataLoader(data, batch_size=1)),
        }
        if not isinstance(found["list"], str):  # which a Batch would not name in its message
            found["Batch"] = answer(GraphSource, Batch.from_data_list(data))
        yield f"graphs {number}: {draw.words}", _difference(found)


def answer(entrance: Callable[..., Any], *arguments: Any) -> Any:
    """The record that an entrance makes, or its refusal without the file's name."""
    try:
        return facts(entrance(*arguments))
    except DataError as error:
        return re.sub(r"^graph '[^']*' is refused: ", "", str(error))


def facts(data: Any) -> dict[str, Any]:
    """Everything that a record holds but the notes, which may name an option of the entrance."""
    batch = data.batch
    tensors = {
        "x": batch.x,
        "y": batch.y,
        "edges": batch.graph.edge_index,
        "masks": torch.stack(batch.masks),
        "graphs": torch.as_tensor(batch.graph.num_graphs),
        **batch.graph.of_edges(slice(None)),
    }
    shown = {name: (tensor.dtype, tensor.tolist()) for name, tensor in tensors.items()}
    return shown | {"names": data.class_names, "task": data.task, "of": data.per_graph}


def _difference(found: dict[str, Any]) -> str:
    """Which entrances answer otherwise than the first one, and how; empty if none does."""
    (first, wanted), *others = found.items()
    lines = []
    for name, record in others:
        if record != wanted:
            lines.append(f"{name}: {str(record)[:250]}, and {first}: {str(wanted)[:250]}")
    return "; ".join(lines)
