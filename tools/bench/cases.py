"""The models that are timed, and the data that they train on."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gnn_depth.data import HeterophilousGraphs, NodeBatch, Planetoid
from gnn_depth.data.base import NodeDataModule
from gnn_depth.graph import Graph

WIDTH, CLASSES = 64, 10  # of graphs that are drawn


@dataclass(frozen=True)
class Case:
    """A model on a graph.

    Attributes:
        family: Which models.
        data: A real graph, or ``million`` for random edges between as many nodes.
        layers: Number of message-passing layers.
        heads: Heads of each.
        width: Width of a head.
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
}
for depth in (16, 64, 128, 256, 512, 1024):
    CASES[f"depth-{depth}"] = Case("depth", "cora", depth)


@dataclass(frozen=True)
class Data:
    """A whole graph, the same in every step.

    Attributes:
        batch: The graph.
        rows: Numbers of the training nodes.
        classes: How many there are.
    """

    batch: NodeBatch
    rows: Tensor
    classes: int


def load(name: str, device: str = "cpu") -> Data:
    """Read a real graph, which is downloaded unless it is below $GNN_DEPTH_DATA, or draw one."""
    if name == "million":
        return full_batch(undirected(torch.randint(1_000_000, (2, 5_000_000))), CLASSES)
    source: NodeDataModule = Planetoid("Cora")
    if name != "cora":
        source = HeterophilousGraphs(name)
    return full_batch(source.batch.to(device), source.num_classes)


def full_batch(batch: NodeBatch, classes: int) -> Data:
    return Data(batch, batch.train_mask.nonzero().flatten(), classes)


def undirected(one_way: Tensor) -> NodeBatch:
    """Edges in both directions, without loops, with random features and classes."""
    nodes = int(one_way.max()) + 1
    one_way = one_way[:, one_way[0] != one_way[1]]
    graph = Graph(torch.cat([one_way, one_way.flip(0)], 1), nodes)
    is_trained = torch.rand(nodes) < 0.5
    x, y = torch.randn(nodes, WIDTH), torch.randint(CLASSES, (nodes,))
    return NodeBatch(x, y, graph, is_trained, ~is_trained, is_trained & False)
