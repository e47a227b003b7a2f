"""The models that are timed, and the data that they train on."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data as Example

from gnn_depth.data import HeterophilousGraphs, NodeBatch, Planetoid, TreeNeighborsMatch
from gnn_depth.data.base import NodeDataModule
from gnn_depth.data.trees import tree_edges
from gnn_depth.graph import Graph

WIDTH, CLASSES = 64, 10  # of graphs that are drawn
TREES = 1024  # in a batch


@dataclass(frozen=True)
class Case:
    """A model on a graph, or on batches of trees.

    Attributes:
        family: Which models.
        data: A real graph, ``million`` for random edges between as many nodes, or ``trees-5`` for
            trees of that depth.
        layers: Number of message-passing layers.
        heads: Heads of each.
        width: Width of a head; in trees of all heads together.
    """

    family: str
    data: str
    layers: int
    heads: int = 1
    width: int = WIDTH


CASES = {
    "gat-lip-30-h1": Case("gat-lip", "cora", 30),
    "gat-lip-30-h8": Case("gat-lip", "cora", 30, 8),
    "gatv2-10-cora": Case("gatv2", "cora", 10),
    "gatv2-40-cora": Case("gatv2", "cora", 40),
    "gatv2-10-squirrel": Case("gatv2", "squirrel", 10),
    "gatv2-40-squirrel": Case("gatv2", "squirrel", 40),
    "gcn-64-cora": Case("gcn", "cora", 64),
    "gcn-128-cora": Case("gcn", "cora", 128),
    "gcn-64-chameleon": Case("gcn", "chameleon", 64),
    "gcn-128-chameleon": Case("gcn", "chameleon", 128),
    "gcn-3-million": Case("gcn", "million", 3),
    "gt-lip-20-h8": Case("gt-lip", "cora", 20, 8),
    "gat-trees-5": Case("trees", "trees-5", 6, 4, width=32),
    "gat-trees-6": Case("trees", "trees-6", 7, 4, width=32),
}
for depth in (16, 64, 128, 256, 512, 1024):
    CASES[f"depth-{depth}"] = Case("depth", "cora", depth)


@dataclass(frozen=True)
class Data:
    """What a step trains on.

    Attributes:
        ours: Gives what our model reads, made anew in each step where the loader does so.
        peers: Gives what a peer reads; of trees the examples, which it collates.
        rows: Numbers of the training nodes.
        y: Their classes.
        features: Width of the features; of trees, the number of values of each column.
        classes: How many there are.
        repeated: The graph of all batches, where a loader makes them.
    """

    ours: Callable[[], tuple[Any, ...]]
    peers: Callable[[], tuple[Any, ...]]
    rows: Tensor
    y: Tensor
    features: Any
    classes: int
    repeated: Graph | None = None


def load(name: str, device: str = "cpu") -> Data:
    """Read a real graph, which is downloaded unless it is below $GNN_DEPTH_DATA, or draw one."""
    if name.startswith("trees-"):
        return trees(int(name.removeprefix("trees-")))
    if name == "million":
        return full_batch(undirected(torch.randint(1_000_000, (2, 5_000_000))), CLASSES)
    source: NodeDataModule = Planetoid("Cora")
    if name != "cora":
        source = HeterophilousGraphs(name)
    return full_batch(source.batch.to(device), source.num_classes)


def full_batch(batch: NodeBatch, classes: int) -> Data:
    """A whole graph, the same in every step."""
    rows = batch.train_mask.nonzero().flatten()
    edges = batch.graph.edge_index
    return Data(
        lambda: (batch.x, batch.graph),
        lambda: (batch.x, edges),
        rows,
        batch.y[rows],
        batch.x.shape[1],
        classes,
    )


def undirected(one_way: Tensor) -> NodeBatch:
    """Edges in both directions, without loops, with random features and classes."""
    nodes = int(one_way.max()) + 1
    one_way = one_way[:, one_way[0] != one_way[1]]
    graph = Graph(torch.cat([one_way, one_way.flip(0)], 1), nodes)
    is_trained = torch.rand(nodes) < 0.5
    x, y = torch.randn(nodes, WIDTH), torch.randint(CLASSES, (nodes,))
    return NodeBatch(x, y, graph, is_trained, ~is_trained, is_trained & False)


def trees(depth: int) -> Data:
    """A batch of Tree-NeighborsMatch: side by side as our loader lays it, and as examples of
    PyTorch Geometric."""
    source = TreeNeighborsMatch(depth)
    make = partial(source.make_batch, source.examples.train[:TREES], "train")
    batch = make()
    read, edges = len(batch.y), tree_edges(depth)
    # Ours has the roots of all examples first, then their first children, and so on.
    x = batch.x.view(-1, read, 2).transpose(0, 1)
    is_root = torch.arange(x.shape[1]) == 0
    examples = []
    for nodes, y in zip(x, batch.y[:, None], strict=True):
        example = Example(x=nodes.contiguous(), edge_index=edges, root_mask=is_root, y=y)
        examples.append(example)

    def ours() -> tuple[Any, ...]:
        batch = make()
        return batch.x, batch.graph, read

    return Data(
        ours,
        lambda: (examples,),
        torch.arange(read),
        batch.y,
        source.num_features,
        source.num_classes,
        batch.graph,
    )
