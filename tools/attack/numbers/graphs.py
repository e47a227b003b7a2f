"""Every entrance of data against every other, for the same drawn graph, complete or not.

The record must be identical, or the refusal must be the same sentence.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from gnn_depth.data import DataError, GraphSource
from tools.attack.numbers import Trial, TrialInput
from tools.attack.numbers.entrances import ENTRANCES, tensors

SINGLE, SEVERAL = 250, 150  # graphs, and lists of graphs
NAN, INF = float("nan"), float("inf")

Arrays = dict[str, Any]


def trials(seed: int, per_mille: int = 1000) -> Iterator[Trial]:
    """Bring each drawn graph through every entrance, and compare what comes out."""
    with TemporaryDirectory() as folder:
        for number in range(max(SINGLE * per_mille // 1000, 1)):
            draw = Graphs([seed, number])
            arrays = draw.graph()
            found = {}
            for name in ENTRANCES:
                found[name] = answer(ENTRANCES[name], arrays, Path(folder), **draw.options)
            yield f"graph {number}: {draw.words}", _difference(found)
        for number in range(max(SEVERAL * per_mille // 1000, 1)):
            draw = Graphs([seed, number, 1])
            graphs = draw.graphs()
            yield f"graphs {number}: {draw.words}", _difference(_of_several(graphs, draw.options))


class Graphs(TrialInput):
    """The graph or the graphs of a trial."""

    def __init__(self, seed: Any) -> None:
        super().__init__(seed)
        self.options: dict[str, Any] = {}

    def of(self, *words: str) -> str:
        """One of several words, by which the trial is called."""
        word = str(self.random.choice(words))
        self.say(word)
        return word

    def graph(self) -> Arrays:
        """The arrays of a graph. Numbers are multiples of 1/4, which every format keeps."""
        random = self.random
        nodes = int(random.choice([1, 3, 12, 30]))
        edges = int(random.integers(1, 3 * nodes + 1))
        arrays: Arrays = {
            "x": random.integers(-9, 9, (nodes, 3)) / 4,
            "y": self._targets(nodes),
            "edge_index": random.integers(nodes, size=(2, edges)),
        }
        if self.chance(0.5, "weights"):
            arrays["edge_weight"] = random.integers(1, 9, edges) / 4
        if self.chance(0.3, "features of edges"):
            arrays["edge_attr"] = random.integers(-9, 9, (edges, 2)) / 4
        self._masks(arrays, nodes)
        self._flaw(arrays)
        return arrays

    def _targets(self, nodes: int) -> np.ndarray:
        random = self.random
        kind = self.of("classes", "unlabelled", "signs", "numbers", "some numbers", "whole floats")
        if kind == "classes":
            return random.integers(int(random.integers(1, 5)), size=nodes)
        if kind == "unlabelled":
            return random.integers(-1, 3, size=nodes)
        if kind == "signs":
            return random.integers(2, size=nodes) * 2 - 1
        if kind == "whole floats":
            return random.integers(3, size=nodes).astype(float)
        y = random.integers(-9, 9, nodes) / 4
        if kind == "some numbers":
            y[random.random(nodes) < 0.3] = NAN
        return y

    def _masks(self, arrays: Arrays, nodes: int) -> None:
        kind = self.of("masks", "masks", "no masks", "some masks", "overlap", "nothing to train on")
        if kind == "no masks":
            return
        part = self.random.integers(4, size=nodes)
        masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
        if kind == "overlap":
            masks["val_mask"] = part <= 2
        elif kind == "nothing to train on":
            masks["train_mask"] = part > 3
        elif kind == "some masks":
            for name in self.random.choice(list(masks), int(self.random.integers(1, 3)), False):
                del masks[name]
            if self.chance(0.5, "val_share"):
                self.options["val_share"] = 0.25
        arrays |= masks

    def _flaw(self, arrays: Arrays) -> None:
        """Make one thing wrong, or none."""
        if self.random.random() < 0.5:
            return
        x, y, edges = arrays["x"], arrays["y"], arrays["edge_index"]
        node = int(self.random.integers(len(y)))
        flaw = self.of(
            "a NaN feature",
            "a feature beyond float32",
            "a huge column",
            "a negative class",
            "an infinite target",
            "large targets",
            "an edge that leaves the graph",
            "a negative weight",
            "no target",
        )
        if flaw == "a NaN feature":
            x[node, 1] = NAN
        elif flaw == "a feature beyond float32":
            x[node, 1] = 1e300
        elif flaw == "a huge column":
            x[:, 1] *= 1e9
        elif flaw == "a negative class":
            y[node] = -2
        elif flaw == "an infinite target" and y.dtype.kind == "f":
            y[node] = INF
        elif flaw == "large targets":
            y += y.dtype.type(2**24)
        elif flaw == "an edge that leaves the graph":
            edges[1, 0] = len(y)
        elif flaw == "a negative weight" and "edge_weight" in arrays:
            arrays["edge_weight"][0] = -0.25
        elif flaw == "no target":
            y[:] = NAN if y.dtype.kind == "f" else -1

    def graphs(self) -> list[Arrays]:
        """Several graphs; one of them may lack what the others have, or have it otherwise."""
        random = self.random
        per_graph = self.chance(0.5, "a target of each graph")
        weights, kind = self.chance(0.3, "weights"), self.of("classes", "numbers", "labels")
        graphs = []
        for _ in range(int(random.integers(2, 6))):
            nodes = int(random.integers(1, 7))
            edges = int(random.integers(1, 9))
            rows = 1 if per_graph else nodes
            targets = {
                "classes": random.integers(3, size=rows),
                "numbers": random.integers(-9, 9, rows) / 4,
                "labels": random.integers(2, size=(rows, 3)),
            }
            one: Arrays = {
                "x": random.integers(-9, 9, (nodes, 2)) / 4,
                "y": targets[kind],
                "edge_index": random.integers(nodes, size=(2, edges)),
            }
            if weights:
                one["edge_weight"] = random.integers(1, 9, edges) / 4
            graphs.append(one)
        other = graphs[int(random.integers(1, len(graphs)))]
        if self.chance(0.4, "one graph differs"):
            flaw = self.of("no x", "other columns", "no y", "an edge that leaves", "NaN", "weights")
            if flaw in ("no x", "no y"):
                # Without x the number of nodes is told, as a Batch tells it.
                other["num_nodes"] = len(other["x"])
                del other[flaw[-1]]
            elif flaw == "other columns":
                other["x"] = other["x"][:, :1]
            elif flaw == "an edge that leaves":
                other["edge_index"][0, 0] = len(other["x"])
            elif flaw == "NaN":
                other["x"][0, 0] = NAN
            elif "edge_weight" in other:
                del other["edge_weight"]
        return graphs


def answer(entrance: Any, arrays: Any, *folder: Path, **options: Any) -> Any:
    """What an entrance makes of arrays: the record, or the refusal without the file's name."""
    try:
        return facts(entrance(arrays, *folder, **options))
    except DataError as error:
        return re.sub(r"^graph '[^']*' is refused: ", "", str(error))


def facts(data: GraphSource) -> dict[str, Any]:
    """Everything that a record holds but the notes, which may name an option of the entrance."""
    batch = data.batch
    record = {
        "x": batch.x,
        "y": batch.y,
        "edges": batch.graph.edge_index,
        "masks": torch.stack(batch.masks),
        **batch.graph.of_edges(slice(None)),
    }
    shown: dict[str, Any] = {
        name: (tensor.dtype, tensor.tolist()) for name, tensor in record.items()
    }
    if batch.graph.node_to_graph is not None:
        shown["graphs"] = batch.graph.node_to_graph.tolist()
    shown["names"] = data.class_names if data.task == "multiclass" else data.num_classes
    return shown | {"task": data.task, "of": data.per_graph, "sum": data.checksum}


def _of_several(graphs: list[Arrays], options: dict[str, Any]) -> dict[str, Any]:
    """What the entrances of several graphs make of them."""

    def source(data: Any, **options: Any) -> GraphSource:
        return GraphSource(data, **options)

    data = [Data(**tensors(arrays)) for arrays in graphs]
    found = {
        "list": answer(source, data, **options),
        "tuple": answer(source, tuple(data), **options),
        "DataLoader": answer(source, DataLoader(data, batch_size=2), **options),
        "list of two loaders' graphs": answer(source, [*data[:1], *data[1:]], **options),
    }
    is_alike = all(one.keys() == graphs[0].keys() for one in graphs)
    same_columns = len({one["x"].shape[1:] for one in graphs if "x" in one}) == 1
    # A Batch cannot be made of graphs with other arrays, nor are its graphs named in messages.
    if is_alike and same_columns and not isinstance(found["list"], str):
        found["Batch"] = answer(source, Batch.from_data_list(data), **options)
        halves = [Batch.from_data_list(half) for half in (data[:1], data[1:])]
        found["list of Batches"] = answer(source, halves, **options)
    return found


def _difference(found: dict[str, Any]) -> str:
    """Which entrances answer otherwise than the first one, and how; empty if none does."""
    (first, wanted), *others = found.items()
    lines = []
    for name, record in others:
        if record == wanted:
            continue
        if isinstance(record, str) or isinstance(wanted, str):
            lines.append(f"{name}: {_words(record)}, and {first}: {_words(wanted)}")
            continue
        keys = [key for key in {**wanted, **record} if wanted.get(key) != record.get(key)]
        lines.append(f"{name} and {first} differ in {', '.join(keys)}")
    return "; ".join(lines)


def _words(answered: Any) -> str:
    return answered if isinstance(answered, str) else "accepted"
