"""The data of the cases: real graphs where their files are, else generated ones of the same size,
and trees."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data as Example

from gnn_depth.data import (
    HeterophilousGraphs,
    NodeDataModule,
    Planetoid,
    SyntheticCitation,
    TreeNeighborsMatch,
)
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.trees import tree_edges
from gnn_depth.graph import Graph

# Counts of the published files, undirected edges, and the size of their training sets.
GENERATED: dict[str, dict[str, Any]] = {
    "cora": {},  # what SyntheticCitation generates by default
    "squirrel": {
        "num_nodes": 5201,
        "num_edges": 198353,
        "num_features": 2089,
        "num_classes": 5,
        "words_per_node": 18,
        "homophily": 0.22,
        "num_train_per_class": 499,
        "num_val": 500,
        "num_test": 500,
        "normalize_features": False,
    },
    "chameleon": {
        "num_nodes": 2277,
        "num_edges": 31371,
        "num_features": 2325,
        "num_classes": 5,
        "words_per_node": 13,
        "homophily": 0.24,
        "num_train_per_class": 218,
        "num_val": 500,
        "num_test": 500,
        "normalize_features": False,
    },
}


BATCH = 1024


class Trees:
    """A batch of Tree-NeighborsMatch: side by side as our loader lays it, and as examples that the
    peer's collates.

    Attributes:
        num_values: How many values each column of the features has.
        classes: How many there are.
        examples: The examples as PyTorch Geometric has them, one graph each, the root marked.
    """

    def __init__(self, depth: int, size: int = BATCH) -> None:
        data = TreeNeighborsMatch(depth, batch_size=size)
        self.num_values, self.classes = data.num_features, data.num_classes
        self._data, self._chosen = data, data.examples.train[:size]
        batch, edges = self.batch(), tree_edges(depth)
        # Ours has the roots of all examples first, then their first children, and so on.
        x = batch.x.view(-1, len(batch.y), 2).transpose(0, 1)
        is_root = torch.arange(x.shape[1]) == 0
        self.examples = []
        for nodes, y in zip(x, batch.y[:, None], strict=True):
            example = Example(x=nodes.contiguous(), edge_index=edges, root_mask=is_root, y=y)
            self.examples.append(example)

    def batch(self) -> NodeBatch:
        """The examples side by side, made as for every step of a training."""
        return self._data.make_batch(self._chosen, "train")

    def ours(self) -> tuple[torch.Tensor, Graph, int]:
        """Features, edges, and how many of the first nodes are read."""
        batch = self.batch()
        return batch.x, batch.graph, len(batch.y)


@dataclass(frozen=True)
class Data:
    """What a step trains on.

    Attributes:
        x, y, graph: Features and classes of the nodes, and the edges.
        train: Numbers of the training nodes.
        classes: How many there are.
        origin: ``real`` or ``generated``.
        trees: The examples, where this is a batch of trees.
    """

    x: Tensor
    y: Tensor
    graph: Graph
    train: Tensor
    classes: int
    origin: str
    trees: Trees | None = None

    @property
    def features(self) -> int | tuple[int, ...]:
        """Width of the features; of trees, the number of values of each column."""
        return self.trees.num_values if self.trees else self.x.shape[1]

    @cached_property
    def edge_index(self) -> Tensor:
        return self.graph.edge_index

    def ours(self) -> tuple[Any, ...]:
        """What our model reads in a step, made anew where the loader does."""
        return self.trees.ours() if self.trees else (self.x, self.graph)

    def peers(self) -> tuple[Any, ...]:
        """What the peer reads; of trees the examples, which it collates."""
        return (self.trees.examples,) if self.trees else (self.x, self.edge_index)


def load(name: str, root: str | None) -> Data:
    """Read or generate a graph, or a batch of trees; nothing is downloaded.

    Raises:
        DataError: The files are there but damaged.
    """
    if name.startswith("trees-"):
        trees = Trees(int(name.removeprefix("trees-")))
        batch = trees.batch()
        roots = torch.arange(len(batch.y))
        return Data(batch.x, batch.y, batch.graph, roots, trees.classes, "generated", trees)
    source = _real(name, root) if root else None
    origin = "real" if source else "generated"
    source = source or SyntheticCitation(**GENERATED[name])
    batch = source.batch
    return Data(
        batch.x,
        batch.y,
        batch.graph,
        batch.train_mask.nonzero().flatten(),
        source.num_classes,
        origin,
    )


def _real(name: str, root: str) -> NodeDataModule | None:
    """The data set, or None where its files are not under ``root``."""
    if name == "cora":
        is_there = (Path(root).expanduser() / "Cora" / "raw").is_dir()
        return Planetoid("Cora", root=root) if is_there else None
    data = HeterophilousGraphs(name, root=root)
    return data if data.path.is_file() else None
