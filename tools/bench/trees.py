"""A batch of Tree-NeighborsMatch: side by side as our loader lays it, and as the examples that the peer's collates."""

import torch
from torch_geometric.data import Data

from gnn_depth.data import TreeNeighborsMatch
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.trees import tree_edges
from gnn_depth.graph import Graph

BATCH = 1024


class Trees:
    """Some examples of one depth.

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
        x = batch.x.view(-1, len(batch.y), 2).transpose(0, 1)
        is_root = torch.arange(x.shape[1]) == 0
        self.examples = [
            Data(x=nodes.contiguous(), edge_index=edges, root_mask=is_root, y=y)
            for nodes, y in zip(x, batch.y[:, None], strict=True)
        ]

    def batch(self) -> NodeBatch:
        """The examples side by side, made as for every step of a training."""
        return self._data.make_batch(self._chosen, "train")

    def ours(self) -> tuple[torch.Tensor, Graph, int]:
        """Features, edges, and how many of the first nodes are read."""
        batch = self.batch()
        return batch.x, batch.graph, len(batch.y)
