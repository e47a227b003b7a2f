"""Data sets of many graphs, with a target for every graph or for every node."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import FullBatch, NodeBatch, NodeDataModule, masks_of
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.mini_batches import induced_subgraph, row_entries
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural, in_range


class GraphSet(NodeDataModule):
    """A data set of many graphs, which lie side by side as one graph.

    A subclass reads them in :meth:`load`. If each graph has a target (``NodeBatch.per_graph``),
    training can take ``batch_size`` graphs at a time, shuffled in every epoch; validation and test
    take all at once.

    Args:
        batch_size: Graphs in a training batch, over all processes; None for all.
        seed: Determines the batches.

    Raises:
        ValueError: A number is out of its range.
    """

    @in_range
    def __init__(self, batch_size: Count | None = None, seed: Natural = 0) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> Any:
        if self.batch_size is None:
            return FullBatch(self.batch)
        if not self.batch.per_graph:
            raise DataError(
                "batch_size is for targets of whole graphs, and these are of nodes: wrap the set "
                "in MiniBatches, or "
                "leave batch_size out."
            )
        rank, processes = share(self.trainer, "batch_size", self.batch_size)
        batch, size = self.batch, self.batch_size
        train = batch.train_mask.nonzero().flatten()
        count = max(1, len(train) // size)

        def chosen(epoch: int) -> list[Tensor]:
            order = train[Draws(self.seed, f"graphs {epoch}").permutation(len(train))]
            return [part[rank::processes] for part in order.tensor_split(count)]

        return EpochLoader(chosen, lambda graphs: subset(batch, graphs), count, self.trainer)


def subset(batch: NodeBatch, graphs: Int[Tensor, "chosen"]) -> NodeBatch:
    """A training batch of some graphs of a batch of many, in the given order."""
    graph_of_node = batch.graph.node_to_graph
    assert graph_of_node is not None
    nodes, new_graph = row_entries(pointers(graph_of_node, batch.graph.num_graphs), graphs)
    part = induced_subgraph(batch.graph, nodes, new_graph)
    return NodeBatch(
        batch.x[nodes], batch.y[graphs], part, *masks_of("train", len(graphs)), per_graph=True
    )


def side_by_side(
    graphs: Sequence[Any], edge_features: bool = True
) -> tuple[Tensor, Tensor, Graph, bool]:
    """Features and targets of ``Data`` objects, their edges as one graph, and whether the targets
    are of graphs.

    ``y`` has one row for the graph or one for each node. Without ``x`` all nodes get the feature 1;
    a single column of integers becomes one-hot. ``edge_weight`` and ``edge_attr``
    (``edge_features``) are read where all graphs have it.

    Raises:
        DataError: There are none, or one lacks something; the message has its number.
    """
    if not graphs:
        raise DataError("there are no graphs.")
    for number, data in enumerate(graphs):
        for name in ("edge_index", "y"):
            if getattr(data, name, None) is None:
                raise DataError(f"graph {number} has no {name}: {data!r}.")
    sizes = [int(data.num_nodes) for data in graphs]
    rows = [y if y.dim() else y[None] for y in (torch.as_tensor(data.y) for data in graphs)]
    per_graph = all(len(y) == 1 for y in rows) and (len(graphs) > 1 or sizes != [1])
    for number, (y, size) in enumerate(zip(rows, sizes, strict=True)):
        if len(y) != (1 if per_graph else size):
            raise DataError(
                f"graph {number} has {len(y)} targets: give one, or one for each of its {size} "
                "nodes."
            )
    offsets = torch.tensor([0, *sizes]).cumsum(0)
    edges = torch.cat(
        [data.edge_index + offset for data, offset in zip(graphs, offsets, strict=False)], 1
    )
    x = _features([getattr(data, "x", None) for data in graphs])
    x = torch.ones(int(offsets[-1]), 1) if x is None else x
    features = (
        _features([getattr(data, "edge_attr", None) for data in graphs]) if edge_features else None
    )
    y = torch.cat(rows)
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    y = y.float() if y.is_floating_point() else y.long()
    owner = (
        torch.repeat_interleave(torch.arange(len(graphs)), torch.tensor(sizes))
        if len(graphs) > 1
        else None
    )
    weights: list[Any] = [getattr(data, "edge_weight", None) for data in graphs]
    weight = (
        None
        if any(one is None for one in weights)
        else torch.cat([one.flatten().float() for one in weights])
    )
    return (
        x,
        y,
        Graph(edges.long(), len(x), owner, edge_weight=weight, edge_attr=features),
        per_graph,
    )


def _features(given: Sequence[Any]) -> Tensor | None:
    if any(x is None for x in given):
        return None
    x = torch.cat([x.flatten(1) if x.dim() > 1 else x[:, None] for x in given])
    if not x.is_floating_point() and x.shape[1] == 1 and len(x):
        x = F.one_hot(x[:, 0].long() - x.min())
    return x.float()
