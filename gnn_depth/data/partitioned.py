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

from gnn_depth.data.base import FullBatches, GraphDataModule, NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.graph import Graph
from gnn_depth.registry import register
from gnn_depth.shard import Shard

ARRAYS = ("x", "y", "masks", "numbers", "ptr", "source")
OF_EDGES = ("edge_weight", "edge_attr")


def _known(name: str) -> property:
    """A property that ``about.json`` tells."""
    return property(lambda self: self._about[name])


@register("data", "PartitionedGraph")
class PartitionedGraph(FullBatches, GraphDataModule):
    """A folder that ``gnn-depth partition`` has written: a graph whose nodes are ordered by part.

    With ``--trainer.strategy graph`` each process reads the rows of its own nodes from memory-mapped files, and none
    holds all features. Otherwise the graph is as it was before. The folder has ``about.json`` and these arrays:

    - ``x.npy``, ``y.npy``, ``masks.npy``: features and targets by position, and three rows of masks;
    - ``numbers.npy``: the number of each node in the graph before;
    - ``ptr.npy``, ``source.npy``: the edges into each position, ``ptr[i]`` to ``ptr[i + 1]``, and the positions that
      they come from, in the order of their numbers; ``edge_weight.npy`` and ``edge_attr.npy`` where edges have them.

    Args:
        path: The folder.
    """

    num_classes: Any = _known("num_classes")
    class_names: Any = _known("class_names")
    num_features: Any = _known("num_features")
    num_edge_features: Any = _known("num_edge_features")
    task: Any = _known("task")
    checksum: Any = _known("checksum")

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = Path(path)

    @cached_property
    def _about(self) -> dict[str, Any]:
        try:
            about: dict[str, Any] = json.loads((self.path / "about.json").read_text())
            sizes = {name: len(self._array(name)) for name in ("x", "numbers", "ptr")}
        except (OSError, ValueError) as error:
            raise DataError(
                f"path {str(self.path)!r} is not a folder that gnn-depth partition has written: {error}.\n"
                "Write one: gnn-depth partition --config FILE --parts 4 --output DIR."
            ) from None
        nodes = about["bounds"][-1]
        if sizes != {"x": nodes, "numbers": nodes, "ptr": nodes + 1}:
            raise DataError(f"{self.path}: about.json has {nodes} nodes, and the arrays have other sizes: {sizes}.")
        return about

    def _array(self, name: str) -> Any:
        return np.load(self.path / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def _read(self, name: str, rows: slice = slice(None)) -> Tensor:
        return torch.from_numpy(np.array(self._array(name)[..., rows] if name == "masks" else self._array(name)[rows]))

    @property
    def about(self) -> str:
        return f"{self._about['about']}; {len(self._about['bounds']) - 1} parts"

    @cached_property
    def batch(self) -> NodeBatch:
        """The whole graph; in a process of strategy graph, its part."""
        processes = dist.get_world_size() if dist.is_initialized() else 1
        strategy = getattr(self.trainer, "strategy", None)
        if processes > 1 and getattr(strategy, "divides_graphs", False):
            return self._part(self._bounds(processes), dist.get_rank())
        numbers, nodes = self._read("numbers"), len(self._array("x"))
        back = torch.argsort(numbers)
        edges = numbers[torch.stack([self._read("source"), _targets(self._read("ptr"))])]
        of_edges: dict[str, Any] = {name: self._read(name) for name in self._of_edges()}
        graph = Graph(edges, nodes, **of_edges)
        return NodeBatch(self._read("x")[back], self._read("y")[back], graph, *self._read("masks")[:, back])

    def _part(self, bounds: Int[Tensor, "_"], rank: int) -> NodeBatch:
        first, after = bounds[rank : rank + 2].tolist()
        here = slice(first, after)
        ptr = self._read("ptr", slice(first, after + 1))
        into = slice(int(ptr[0]), int(ptr[-1]))
        edges = torch.stack([self._read("source", into), _targets(ptr - ptr[0]) + first])
        graph = Shard(edges, bounds, self._read("numbers", here), **{n: self._read(n, into) for n in self._of_edges()})
        return NodeBatch(self._read("x", here), self._read("y", here), graph, *self._read("masks", here))

    def _bounds(self, processes: int) -> Int[Tensor, "_"]:
        """The first position of each process: whole parts if their number allows it, otherwise equal chunks."""
        bounds, nodes = self._about["bounds"], self._about["bounds"][-1]
        parts = len(bounds) - 1
        if parts % processes == 0:
            return torch.tensor(bounds[:: parts // processes])
        return torch.tensor([rank * nodes // processes for rank in range(processes + 1)])

    def _of_edges(self) -> list[str]:
        return [name for name in OF_EDGES if (self.path / f"{name}.npy").exists()]


def write_partition(data: GraphDataModule, batch: NodeBatch, part_of_node: Int[Tensor, "nodes"], folder: Path) -> None:
    """Write a data set's full batch to a new folder for :class:`PartitionedGraph`; nothing is left if that fails."""
    if folder.exists():
        raise DataError(f"{folder} exists: name a new folder, or remove it.")
    graph = batch.graph
    order = torch.argsort(part_of_node, stable=True)
    position = torch.empty_like(order)
    position[order] = torch.arange(len(order))
    by_target = torch.argsort(position[graph.target], stable=True)
    arrays = {
        "x": batch.x[order],
        "y": batch.y[order],
        "masks": torch.stack(batch.masks)[:, order],
        "numbers": order,
        "ptr": torch.cat([torch.zeros(1, dtype=torch.long), graph.in_degree[order].cumsum(0)]),
        "source": position[graph.source[by_target]],
        **graph.of_edges(by_target),
    }
    about = {
        "bounds": [0, *torch.bincount(part_of_node).cumsum(0).tolist()],
        "num_features": batch.x.shape[1],
        "num_classes": data.num_classes,
        "class_names": data.class_names,
        "num_edge_features": graph.edge_channels,
        "task": data.task,
        "about": data.about,
        "checksum": data.checksum,
    }
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    part.mkdir(parents=True)
    try:
        for name, array in arrays.items():
            np.save(part / f"{name}.npy", array.numpy())
        (part / "about.json").write_text(json.dumps(about, indent=1))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _targets(ptr: Int[Tensor, "_"]) -> Int[Tensor, "edges"]:
    return torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff())
