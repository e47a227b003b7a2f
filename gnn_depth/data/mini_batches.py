"""Mini-batches of one large graph: training on subgraphs, evaluation on the whole graph."""

from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import (
    FullBatches,
    GraphDataModule,
    NodeBatch,
    NodeDataModule,
    WrapsSource,
    masks_of,
)
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.loaders import EpochLoader, share
from gnn_depth.data.partition import partition
from gnn_depth.graph import Graph
from gnn_depth.ranges import Count, Natural
from gnn_depth.registry import register

Method: TypeAlias = Literal["random", "partition", "neighbor"]
CHUNKS, NEIGHBORS = 8, (10, 10)


@register("data", "MiniBatches")
class MiniBatches(WrapsSource, FullBatches, GraphDataModule):
    r"""Mini-batches: train on subgraphs of another data set, evaluate on its whole graph.

    Every method gives the same number of batches in an epoch and trains on each training node once.
    A batch contains

    - ``random``: a random subset of the nodes and the edges between them;
    - ``partition``: a few densely connected chunks, combined anew in every epoch, and the edges
      between their nodes (Chiang et al., *Cluster-GCN*, KDD 2019);
    - ``neighbor``: a random subset of the training nodes, a sample of their neighbours, a sample of
      the neighbours of these, and so on (Hamilton et al., *Inductive Representation Learning on
      Large Graphs*, NeurIPS 2017).

    The loss is the mean over the batch's training nodes. Layers and norms see only the batch: a
    node's degree, for example in GCN's weights :math:`1 / \sqrt{d_i d_j}`, is the number of its
    edges in the batch.

    With P processes, batch k of process p is batch k P + p of the epoch. Each process evaluates the
    whole graph.

    Args:
        source: The data set.
        method: How batches are made: ``random``, ``partition`` or ``neighbor``.
        parts: Batches in an epoch, over all processes.
        chunks: With ``partition``, the number of chunks in a batch; 8 by default.
        neighbors: With ``neighbor``, the maximal number of neighbours sampled for a training node,
            for a node sampled there, and so on; [10, 10] by default. With more layers than numbers,
            messages pass along the same edges again.
        seed: Determines the batches of each epoch; the same on any machine.

    Raises:
        ValueError: A number is out of its range, or an option belongs to another method.
    """

    batch: Any = property(attrgetter("source.batch"))
    num_features: Any = property(attrgetter("source.num_features"))
    checksum: Any = property(attrgetter("source.checksum"))
    missing_mask: Any = property(lambda self: getattr(self.source, "missing_mask", None))
    missing_hash: Any = property(lambda self: getattr(self.source, "missing_hash", None))

    def __init__(
        self,
        source: NodeDataModule,
        method: Method = "random",
        parts: Count = 10,
        chunks: Count | None = None,
        neighbors: list[Count] | None = None,
        seed: Natural = 0,
    ) -> None:
        super().__init__()
        for option, value, owner in (
            ("chunks", chunks, "partition"),
            ("neighbors", neighbors, "neighbor"),
        ):
            if value is not None and method != owner:
                raise ValueError(
                    f"{option} is an option of method {owner}, and method is {method}: leave one "
                    "out."
                )
        if neighbors is not None and not neighbors:
            raise ValueError(
                "neighbors is empty: give a number for every step away from the training nodes."
            )
        self.source = source
        self.method = method
        self.parts = parts
        self.chunks = CHUNKS if chunks is None else chunks
        self.neighbors = list(NEIGHBORS) if neighbors is None else neighbors
        self.seed = seed

    @property
    def about(self) -> str:
        return f"{self.source.about}; {self.parts} batches in an epoch"

    @cached_property
    def groups(self) -> "Groups":
        """The groups of nodes that batches consist of; a partition is computed on first use.

        Raises:
            DataError: There are too few training nodes, or too few nodes, for so many parts.
        """
        self.refuse_graphs()
        nodes, train_mask, chunks = (
            len(self.batch.x),
            self.batch.train_mask,
            self.parts * self.chunks,
        )
        group, name = torch.arange(nodes), "training nodes"
        if self.method == "partition":
            if chunks > nodes:
                raise DataError(
                    f"parts {self.parts} x chunks {self.chunks} are more chunks than the graph has "
                    f"nodes, {nodes}: "
                    "use fewer."
                )
            group, name = (
                partition(self.batch.graph, chunks, Draws(self.seed, "chunks")),
                "chunks with training nodes",
            )
        ptr = pointers(group, int(group.max()) + 1)
        is_trained = torch.zeros(len(ptr) - 1, dtype=torch.bool)
        is_trained[group[train_mask]] = True
        trained, others = is_trained.nonzero().flatten(), (~is_trained).nonzero().flatten()
        if self.parts > len(trained):
            raise DataError(
                f"parts is {self.parts}, but there are only {len(trained)} {name}, and every batch "
                "needs one: use "
                f"{len(trained)} parts or fewer."
            )
        others = others[:0] if self.method == "neighbor" else others
        return Groups(torch.argsort(group, stable=True), ptr, trained, others)

    def train_dataloader(self) -> Any:
        rank, processes = share(self.trainer, "parts", self.parts)
        _ = self.groups  # faults are found before the first epoch
        return EpochLoader(
            lambda epoch: self.deal(epoch)[rank::processes],
            self.make_batch,
            self.parts // processes,
            self.trainer,
        )

    def deal(self, epoch: int) -> "list[Deal]":
        """Share out the groups among the batches of an epoch, so that each has some to train on."""
        draws = Draws(self.seed, f"parts {epoch}")
        order = torch.cat(
            [
                some[draws.permutation(len(some))]
                for some in (self.groups.trained, self.groups.others)
            ]
        )
        return [Deal(epoch, number, order[number :: self.parts]) for number in range(self.parts)]

    def make_batch(self, deal: "Deal") -> NodeBatch:
        """The batch of some groups: its training nodes come first, and only these have classes."""
        whole = self.batch
        if self.method == "neighbor":
            draws = Draws(self.seed, f"neighbors {deal.epoch} {deal.number}")
            seeds = deal.groups.sort().values
            trained = len(seeds)
            nodes, graph = sample_neighbors(whole.graph, seeds, self.neighbors, draws)
        else:
            nodes = self.groups.nodes[row_entries(self.groups.ptr, deal.groups)[0]].sort().values
            is_trained = whole.train_mask[nodes]
            trained = int(is_trained.sum())
            nodes = torch.cat([nodes[is_trained], nodes[~is_trained]])
            graph = induced_subgraph(whole.graph, nodes)
        return NodeBatch(
            whole.x[nodes], whole.y[nodes[:trained]], graph, *masks_of("train", trained)
        )


class Groups(NamedTuple):
    """Groups of nodes, or single ones, none of which is divided between batches."""

    nodes: Int[Tensor, "nodes"]  # group by group
    ptr: Int[Tensor, "_"]  # the nodes of group g are nodes[ptr[g]:ptr[g + 1]]
    trained: Int[Tensor, "trained"]  # the groups with training nodes
    others: Int[Tensor, "others"]  # other groups, if batches contain any


class Deal(NamedTuple):
    """The groups of one batch of an epoch."""

    epoch: int
    number: int
    groups: Int[Tensor, "groups"]


def induced_subgraph(
    graph: Graph, nodes: Int[Tensor, "part"], node_to_graph: Int[Tensor, "part"] | None = None
) -> Graph:
    """All edges between some distinct nodes, which are renumbered in the given order."""
    position = _positions(graph, nodes)
    edge, target = row_entries(graph.ptr, nodes)
    source = position[graph.source[edge]]
    inside = source >= 0
    ends = torch.stack([source[inside], target[inside]])
    return Graph(ends, len(nodes), node_to_graph, **graph.of_edges(edge[inside]))


def sample_neighbors(
    graph: Graph, seeds: Int[Tensor, "seeds"], sizes: Sequence[int], draws: Draws
) -> tuple[Int[Tensor, "part"], Graph]:
    """Sample neighbours of some distinct nodes, then neighbours of those, and so on.

    ``sizes`` are the maximal numbers of edges into a seed, into a node reached from there, and so
    on. The edges into a node are sampled once, without replacement, when the node is first reached;
    the nodes reached last have none.

    Returns:
        The nodes in the order in which they are reached, seeds first, and the sampled edges between
        them.
    """
    position, reached = _positions(graph, seeds), [seeds]
    sources, targets, edges, first = [], [], [], 0
    for size in sizes:
        edge, target = row_entries(graph.ptr, reached[-1])
        kept = _sample_each_group(target, size, draws)
        source = graph.source[edge[kept]]
        edges.append(edge[kept])
        targets.append(target[kept] + first)
        first += len(reached[-1])
        reached.append(torch.unique(source[position[source] < 0]))
        position[reached[-1]] = first + torch.arange(len(reached[-1]))
        sources.append(position[source])
    nodes = torch.cat(reached)
    ends = torch.stack([torch.cat(sources), torch.cat(targets)])
    return nodes, Graph(ends, len(nodes), **graph.of_edges(torch.cat(edges)))


def row_entries(
    ptr: Int[Tensor, "pointers"], rows: Int[Tensor, "rows"]
) -> tuple[Int[Tensor, "entries"], Int[Tensor, "entries"]]:
    """The entries of some rows of a CSR matrix, row by row: their positions, and the index into
    ``rows`` of each."""
    count = ptr[rows + 1] - ptr[rows]
    row = torch.repeat_interleave(torch.arange(len(rows)), count)
    skipped = ptr[rows] - (count.cumsum(0) - count)
    return torch.arange(len(row)) + skipped[row], row


def _sample_each_group(
    group: Int[Tensor, "members"], size: int, draws: Draws
) -> Int[Tensor, "kept"]:
    """Up to ``size`` random members of each group; the members of a group are neighbours in
    ``group``."""
    # The sort keeps the groups in order and shuffles each.
    order = torch.argsort(group + torch.from_numpy(draws.uniform(len(group))), stable=True)
    count = torch.bincount(group)
    rank = torch.arange(len(group)) - (count.cumsum(0) - count)[group]
    return order[rank < size]


def _positions(graph: Graph, nodes: Int[Tensor, "part"]) -> Int[Tensor, "nodes"]:
    """For each node of a graph its position in ``nodes``, or -1."""
    position = torch.full((graph.num_nodes,), -1)
    position[nodes] = torch.arange(len(nodes))
    return position
