"""Batches of trees laid side by side, made when they are asked for."""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.tree_examples import TreeExamples
from gnn_depth.graph import Graph

Stage: TypeAlias = Literal["train", "val", "test"]


def tree_edges(depth: int) -> Int[Tensor, "2 edges"]:
    """Edges of a full binary tree: from each node to its parent and to itself.

    Nodes are numbered breadth first: the root is 0, and node v has the children 2 v + 1 and 2 v + 2.
    """
    node = torch.arange(2 ** (depth + 1) - 1)
    child = node[1:]
    return torch.stack([torch.cat([child, node]), torch.cat([(child - 1) // 2, node])])


class TreeBatches:
    """Makes the batches of Tree-NeighborsMatch out of its examples.

    All examples are one tree with other features, so the graph of a batch is that of every batch of its size, and is
    kept. Node v of example b of B is row v B + b: the roots are the first rows, and each level comes before the next,
    so that what a layer may leave out is at the end.

    Args:
        examples: The examples.
    """

    def __init__(self, examples: TreeExamples) -> None:
        self.examples = examples
        self.leaves = examples.leaves
        self._values = examples.values.T.contiguous()  # by leaf, as the rows of a batch are
        self._graphs: dict[int, Graph] = {}

    def batch(self, chosen: Int[Tensor, "batch"], stage: Stage) -> NodeBatch:
        """The batch of some examples.

        Args:
            chosen: Their numbers.
            stage: The set that they are in.
        """
        size, permutation, leaf = len(chosen), chosen // self.leaves, chosen % self.leaves
        x = torch.zeros(2 * self.leaves - 1, size, 2, dtype=torch.long)
        x[0, :, 0] = leaf + 1
        x[-self.leaves :, :, 0] = torch.arange(1, self.leaves + 1)[:, None]
        x[-self.leaves :, :, 1] = self._values.index_select(1, permutation)
        y = self.examples.values[permutation, leaf].long() - 1
        train, val, test = (torch.full((size,), stage == name) for name in ("train", "val", "test"))
        return NodeBatch(x.view(-1, 2), y, self.graph(size), train, val, test)

    def graph(self, size: int) -> Graph:
        """That many trees side by side, the same graph every time."""
        if size not in self._graphs:
            with torch.inference_mode(False):  # a test may come first, and what is made in it cannot be trained with
                edges = tree_edges(self.leaves.bit_length() - 1)[:, :, None] * size + torch.arange(size)
                rows = torch.arange((2 * self.leaves - 1) * size)
                self._graphs[size] = Graph(edges.flatten(1), len(rows), rows % size)
        return self._graphs[size]
