"""Mini-batches of one large graph: training on subgraphs, evaluation on the whole graph."""

from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import (
    GraphDataModule,
    NodeBatch,
    NodeDataModule,
    WrapsSource,
    masks_of,
    of_source,
)
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.shards import metis
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural
from gnn_depth.registry import register


@register("data", "MiniBatches")
class MiniBatches(WrapsSource, GraphDataModule):
    r"""Mini-batches: train on subgraphs of another data set, evaluate on its whole graph.

    Both methods give the same number of batches in an epoch and train on each training node once. A
    batch contains

    - ``random``: a random subset of the nodes and the edges between them;
    - ``partition``: a few densely connected chunks made by METIS, combined anew in every epoch, and
      the edges between their nodes (Chiang et al., *Cluster-GCN*, KDD 2019); it needs the package
      pymetis.

    The loss is the mean over the batch's training nodes. Layers and norms see only the batch: a
    node's degree, for example in GCN's weights :math:`1 / \sqrt{d_i d_j}`, is the number of its
    edges in the batch.

    P processes take turns: batch k of process p is batch k P + p of the epoch. Each process
    evaluates the whole graph.

    Args:
        source: The data set.
        method: How batches are made: ``random`` or ``partition``.
        parts: Batches in an epoch, over all processes.
        chunks: With ``partition``, the number of chunks in a batch.
        seed: Determines the batches of each epoch; the same on any machine.

    Raises:
        ValueError: A number is out of its range.
    """

    # The whole graph, which is evaluated, and its properties are the source's.
    batch: NodeBatch = of_source("batch")
    num_features: int = of_source("num_features")
    checksum: str = of_source("checksum")

    def __init__(
        self,
        source: NodeDataModule,
        method: Literal["random", "partition"] = "random",
        parts: Count = 10,
        chunks: Count = 8,
        seed: Natural = 0,
    ) -> None:
        super().__init__()
        self.source = source
        self.method = method
        self.parts = parts
        self.chunks = chunks
        self.seed = seed

    @property
    def about(self) -> str:
        return f"{self.source.about}; {self.parts} batches in an epoch"

    @cached_property
    def group_of_node(self) -> Int[Tensor, "nodes"]:
        """The group of each node: a chunk of a partition, or the node alone.

        All nodes of a group are in the same batch. They are computed on first use.

        Raises:
            DataError: There are too few training nodes for so many parts.
        """
        self.refuse_graphs()
        groups = torch.arange(len(self.batch.x))
        if self.method == "partition":
            groups = metis(self.batch.graph, min(self.parts * self.chunks, len(groups)))
        trained = len(torch.unique(groups[self.batch.train_mask]))
        if self.parts > trained:
            raise DataError(
                f"parts is {self.parts}, but there are only {trained} groups with training "
                f"nodes, and every batch needs one: use {trained} parts or fewer."
            )
        return groups

    def train_dataloader(self) -> EpochLoader[Tensor]:
        rank, processes = share(self.trainer, "parts", self.parts)
        group_of_node = self.group_of_node  # raises a DataError now, not in the first epoch
        group = torch.arange(int(group_of_node.max()) + 1)
        is_trained = torch.isin(group, group_of_node[self.batch.train_mask])

        def nodes_of_batches(epoch: int) -> list[Tensor]:
            draws = Draws(self.seed, f"parts {epoch}")
            shuffled = []
            # The groups with training nodes come first, so none of the batches is left without one.
            for groups in (group[is_trained], group[~is_trained]):
                shuffled.append(groups[draws.permutation(len(groups))])
            # As with cards, batch b gets every parts-th group from group b on.
            batch_of_group = torch.empty_like(group)
            batch_of_group[torch.cat(shuffled)] = group % self.parts
            batch_of_node = batch_of_group[group_of_node]
            # In the order of the data, in which neighbours may lie close together.
            own = range(rank, self.parts, processes)
            return [(batch_of_node == number).nonzero().flatten() for number in own]

        return EpochLoader(nodes_of_batches, self.make_batch, self.parts // processes, self.trainer)

    def make_batch(self, nodes: Int[Tensor, "part"]) -> NodeBatch:
        """Make a batch of some nodes: training nodes come first, and only they have targets."""
        is_trained = self.batch.train_mask[nodes]
        trained = nodes[is_trained]
        return _training_batch(self.batch, torch.cat([trained, nodes[~is_trained]]), trained)


def induced_subgraph(
    graph: Graph, nodes: Int[Tensor, "part"], node_to_graph: Int[Tensor, "part"] | None = None
) -> Graph:
    """The graph of some distinct nodes, numbered in the given order, and all edges among them."""
    position = torch.full((graph.num_nodes,), -1)
    position[nodes] = torch.arange(len(nodes))
    edge, target = row_entries(graph.ptr, nodes)
    source = position[graph.source[edge]]
    inside = source >= 0
    ends = torch.stack([source[inside], target[inside]])
    return Graph(ends, len(nodes), node_to_graph, **graph.of_edges(edge[inside]))


def row_entries(
    ptr: Int[Tensor, "pointers"], rows: Int[Tensor, "rows"]
) -> tuple[Int[Tensor, "entries"], Int[Tensor, "entries"]]:
    """Find the entries of some rows of a CSR matrix, row by row.

    Returns:
        The position of each entry in the matrix, and the index into ``rows`` of its row.
    """
    count = ptr[rows + 1] - ptr[rows]
    row = torch.repeat_interleave(torch.arange(len(rows)), count)
    # Both begin a row: ptr in the matrix, the cumulative count in the result.
    shift = ptr[rows] - (count.cumsum(0) - count)
    return torch.arange(len(row)) + shift[row], row


def subset(batch: NodeBatch, graphs: Int[Tensor, "chosen"]) -> NodeBatch:
    """Make a training batch of some graphs of a larger batch, in the given order."""
    graph_of_node = batch.graph.node_to_graph
    assert graph_of_node is not None
    # The nodes of a graph lie together, as the entries of a row of a sparse matrix do.
    nodes, new_graph = row_entries(pointers(graph_of_node, batch.graph.num_graphs), graphs)
    return _training_batch(batch, nodes, graphs, new_graph)


def _training_batch(
    whole: NodeBatch, nodes: Tensor, rows: Tensor, node_to_graph: Tensor | None = None
) -> NodeBatch:
    """A batch of some nodes of a larger one, all of whose targets, ``rows``, are to train on."""
    graph = induced_subgraph(whole.graph, nodes, node_to_graph)
    masks = masks_of("train", len(rows))
    return NodeBatch(whole.x[nodes], whole.y[rows], graph, *masks, per_graph=whole.per_graph)
