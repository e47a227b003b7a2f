"""A graph divided into parts on disk, of which each process of strategy graph reads its own."""

import json
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import FullBatches, GraphDataModule, NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.graph import OF_EDGES, Graph
from gnn_depth.ranges import FilePath
from gnn_depth.registry import register
from gnn_depth.shard import Shard


def _in_file(name: str) -> Any:
    """A property that ``about.json`` holds."""
    return property(lambda self: self._about[name])


@register("data", "PartitionedGraph")
class PartitionedGraph(FullBatches, GraphDataModule):
    """A folder that ``gnn-depth partition`` has written: a graph whose nodes are ordered by part.

    With ``--trainer.strategy graph`` each process reads the rows of its own nodes from
    memory-mapped files, and none holds all features. Otherwise the graph is as it was before. The
    folder has ``about.json`` and these arrays:

    - ``x.npy``, ``y.npy``, ``masks.npy``: features, targets and three columns of masks by position;
    - ``numbers.npy``: the number of each node in the graph before;
    - ``ptr.npy``, ``source.npy``: the edges into each position, ``ptr[i]`` to ``ptr[i + 1]``, and
      the positions that they come from, in the order of their numbers; ``edge_weight.npy`` and
      ``edge_attr.npy`` where edges have them.

    Args:
        path: The folder.
    """

    # Of the file, so that a run can be named without reading an array.
    num_classes: int = _in_file("num_classes")
    class_names: list[str] = _in_file("class_names")
    num_features: int = _in_file("num_features")
    num_edge_features: int = _in_file("num_edge_features")
    task: str = _in_file("task")
    checksum: str = _in_file("checksum")

    def __init__(self, path: FilePath) -> None:
        super().__init__()
        self.path = Path(path)

    @cached_property
    def _about(self) -> dict[str, Any]:
        file = self.path / "about.json"
        if not file.is_file():
            raise DataError(
                f"path {str(self.path)!r} is not a folder that gnn-depth partition has written: "
                "there is no file about.json.\n"
                "Write one: gnn-depth partition --config FILE --parts 4 --output DIR."
            )
        return json.loads(file.read_text())

    def _read(self, name: str, rows: slice = slice(None)) -> Tensor:
        """Some rows of an array, without reading the others."""
        array = np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        return torch.from_numpy(np.array(array[rows]))

    def _of_edges(self, rows: slice = slice(None)) -> dict[str, Any]:
        names = [name for name in OF_EDGES if (self.path / f"{name}.npy").exists()]
        return {name: self._read(name, rows) for name in names}

    @property
    def about(self) -> str:
        return f"{self._about['about']}; {len(self._about['bounds']) - 1} parts"

    @cached_property
    def batch(self) -> NodeBatch:
        """The whole graph; in a process of strategy graph, its part."""
        processes = dist.get_world_size() if dist.is_initialized() else 1
        strategy = getattr(self.trainer, "strategy", None)
        # Other strategies give each process the whole graph.
        if processes > 1 and getattr(strategy, "divides_graphs", False):
            return self._part(self._bounds(processes), dist.get_rank())
        # The graph as it was before it was divided, so that a run on it gives the same.
        numbers = self._read("numbers")
        back = torch.argsort(numbers)
        target = torch.repeat_interleave(self._read("ptr").diff())
        edges = numbers[torch.stack([self._read("source"), target])]
        graph = Graph(edges, len(numbers), **self._of_edges())
        masks = self._read("masks")[back].T
        return NodeBatch(self._read("x")[back], self._read("y")[back], graph, *masks)

    def _part(self, bounds: Int[Tensor, "_"], rank: int) -> NodeBatch:
        first, after = bounds[rank : rank + 2].tolist()
        here = slice(first, after)
        ptr = self._read("ptr", slice(first, after + 1))
        into = slice(int(ptr[0]), int(ptr[-1]))
        target = torch.repeat_interleave(ptr.diff()) + first
        edges = torch.stack([self._read("source", into), target])
        numbers = self._read("numbers", here)
        # As shard_batch divides a graph in memory, but without ever reading the rest.
        graph = Shard(edges, bounds, numbers, **self._of_edges(into))
        x, y, masks = (self._read(name, here) for name in ("x", "y", "masks"))
        return NodeBatch(x, y, graph, *masks.T, order=numbers)

    def _bounds(self, processes: int) -> Int[Tensor, "_"]:
        """The first position of each process: whole parts if their number allows it, otherwise
        equal chunks."""
        bounds = self._about["bounds"]
        parts = len(bounds) - 1
        if parts % processes == 0:
            return torch.tensor(bounds[:: parts // processes])
        return torch.arange(processes + 1) * bounds[-1] // processes


def write_partition(
    data: GraphDataModule, batch: NodeBatch, part_of_node: Int[Tensor, "nodes"], folder: Path
) -> None:
    """Write a data set's full batch to a new folder for :class:`PartitionedGraph`; nothing is left
    if that fails."""
    if folder.exists():
        raise DataError(f"{folder} exists: name a new folder, or remove it.")
    graph = batch.graph
    order = torch.argsort(part_of_node, stable=True)
    position = torch.argsort(order)
    # Stable, so that each node adds up its neighbours in the same order as before.
    by_target = torch.argsort(position[graph.target], stable=True)
    arrays = {
        "x": batch.x[order],
        "y": batch.y[order],
        "masks": torch.stack(batch.masks, 1)[order],
        "numbers": order,
        "ptr": pointers(position[graph.target], graph.num_nodes),
        "source": position[graph.source[by_target]],
        **graph.of_edges(by_target),
    }
    about = {
        "bounds": pointers(part_of_node, int(part_of_node.max()) + 1).tolist(),
        "num_features": batch.x.shape[1],
        "num_classes": data.num_classes,
        "class_names": data.class_names,
        "num_edge_features": graph.edge_channels,
        "task": data.task,
        "about": data.about,
        "checksum": data.checksum,
    }
    # Under another name until it is whole: a folder that is there can be read.
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        for name, array in arrays.items():
            np.save(part / f"{name}.npy", array.numpy())
        (part / "about.json").write_text(json.dumps(about, indent=1))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
