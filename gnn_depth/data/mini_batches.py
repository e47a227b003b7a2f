"""Mini-batches of one large graph: training on subgraphs, evaluation on the whole graph."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import FullBatch, GraphDataModule, NodeBatch, NodeDataModule, WrapsSource
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
class MiniBatches(WrapsSource, GraphDataModule):
    r"""Mini-batches: train on subgraphs of another data set, evaluate on its whole graph.

    Every method gives the same number of batches in an epoch and trains on each training node once. A batch contains

    - ``random``: a random subset of the nodes and the edges between them;
    - ``partition``: a few densely connected chunks, combined anew in every epoch, and the edges between their nodes
      (Chiang et al., *Cluster-GCN*, KDD 2019);
    - ``neighbor``: a random subset of the training nodes, a sample of their neighbours, a sample of the neighbours of
      these, and so on (Hamilton et al., *Inductive Representation Learning on Large Graphs*, NeurIPS 2017).

    The loss is the mean over the batch's training nodes. Layers and norms see only the batch: a node's degree, for
    example in GCN's weights :math:`1 / \sqrt{d_i d_j}`, is the number of its edges in the batch.

    With P processes, batch k of process p is batch k P + p of the epoch. Each process evaluates the whole graph.

    Args:
        source: The data set.
        method: How batches are made: ``random``, ``partition`` or ``neighbor``.
        parts: Batches in an epoch, over all processes.
        chunks: With ``partition``, the number of chunks in a batch; 8 by default.
        neighbors: With ``neighbor``, the maximal number of neighbours sampled for a training node, for a node sampled
            there, and so on; [10, 10] by default. With more layers than numbers, messages pass along the same edges
            again.
        seed: Determines the batches of each epoch; the same on any machine.

    Raises:
        ValueError: A number is out of its range, or an option belongs to another method.
    """

    num_features: Any = property(attrgetter("source.num_features"))
    checksum: Any = property(attrgetter("source.checksum"))

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
        for option, value, owner in (("chunks", chunks, "partition"), ("neighbors", neighbors, "neighbor")):
            if value is not None and method != owner:
                raise ValueError(f"{option} is an option of method {owner}, and method is {method}: leave one out.")
        if neighbors is not None and not neighbors:
            raise ValueError("neighbors is empty: give a number for every step away from the training nodes.")
        self.source = source
        self.method = method
        self.parts = parts
        self.chunks = CHUNKS if chunks is None else chunks
        self.neighbors = list(NEIGHBORS) if neighbors is None else neighbors
        self.seed = seed

    @property
    def about(self) -> str:
        return f"{self.source.about}; {self.parts} batches in an epoch"

    @property
    def missing_mask(self) -> Tensor | None:
        """The nodes whose features the source has erased; None if it erases none."""
        return getattr(self.source, "missing_mask", None)

    @property
    def missing_hash(self) -> str | None:
        """The source's checksum of this mask."""
        return getattr(self.source, "missing_hash", None)

    @cached_property
    def sampler(self) -> "SubgraphSampler":
        """The sampler that makes the batches; the partition is computed on first use.

        Raises:
            DataError: There are too few training nodes, or too few nodes, for so many parts.
        """
        with torch.inference_mode(False):  # a tensor made in inference mode could not be trained with later
            self.refuse_graphs()
            batch = self.source.batch
            if self.method == "neighbor":
                return NeighborSampler(batch, self.parts, self.seed, self.neighbors)
            if self.method == "random":
                return GroupSampler(batch, self.parts, self.seed, torch.arange(len(batch.x)))
            chunks = self.parts * self.chunks
            if chunks > len(batch.x):
                raise DataError(
                    f"parts {self.parts} x chunks {self.chunks} are more chunks than the graph has nodes, "
                    f"{len(batch.x)}: use fewer."
                )
            labels = partition(batch.graph, chunks, Draws(self.seed, "chunks"))
            return GroupSampler(batch, self.parts, self.seed, labels)

    def train_dataloader(self) -> "EpochLoader[Deal]":
        rank, processes = share(self.trainer, "parts", self.parts)
        sampler = self.sampler
        return EpochLoader(
            lambda epoch: sampler.deal(epoch)[rank::processes], sampler.make, self.parts // processes, self.trainer
        )

    def val_dataloader(self) -> FullBatch:
        return self.source.val_dataloader()

    def test_dataloader(self) -> FullBatch:
        return self.source.test_dataloader()

    def predict_dataloader(self) -> FullBatch:
        return self.source.predict_dataloader()


class Deal(NamedTuple):
    """The units (nodes or groups of nodes) of one batch of an epoch."""

    epoch: int
    number: int
    units: Int[Tensor, "units"]


class SubgraphSampler(ABC):
    """Shuffles the units of a graph into batches in every epoch, so that each batch has some to train on.

    Units are ``trained``, those that have training nodes, or ``others``. There is an error if there are fewer trained
    ones, which are called ``name`` in it, than batches.
    """

    def __init__(
        self, batch: NodeBatch, count: int, seed: int, trained: Tensor, others: Tensor, name: str = "training nodes"
    ) -> None:
        if count > len(trained):
            raise DataError(
                f"parts is {count}, but there are only {len(trained)} {name}, and every batch needs one: "
                f"use {len(trained)} parts or fewer."
            )
        self.batch = batch
        self.count = count
        self.seed = seed
        self._trained, self._others = trained, others

    def deal(self, epoch: int) -> list[Deal]:
        """The units of each batch of an epoch."""
        draws = Draws(self.seed, f"parts {epoch}")
        order = torch.cat([units[draws.permutation(len(units))] for units in (self._trained, self._others)])
        return [Deal(epoch, number, order[number :: self.count]) for number in range(self.count)]

    @abstractmethod
    def make(self, deal: Deal) -> NodeBatch:
        """The batch of some units: its training nodes come first, and only these have classes."""

    def _subgraph(self, nodes: Int[Tensor, "part"], trained: int, graph: Graph) -> NodeBatch:
        all_nodes, no_nodes = torch.ones(trained, dtype=torch.bool), torch.zeros(trained, dtype=torch.bool)
        return NodeBatch(self.batch.x[nodes], self.batch.y[nodes[:trained]], graph, all_nodes, no_nodes, no_nodes)


class GroupSampler(SubgraphSampler):
    """Batches that partition all nodes, with the edges inside each batch; a ``group`` of nodes is never divided."""

    def __init__(self, batch: NodeBatch, count: int, seed: int, group: Int[Tensor, "nodes"]) -> None:
        groups = int(group.max()) + 1
        self._nodes = torch.argsort(group, stable=True)
        self._ptr = pointers(group, groups)
        trained = torch.zeros(groups, dtype=torch.bool)
        trained[group[batch.train_mask]] = True
        name = "training nodes" if groups == len(group) else "chunks with training nodes"
        super().__init__(batch, count, seed, trained.nonzero().flatten(), (~trained).nonzero().flatten(), name)

    def make(self, deal: Deal) -> NodeBatch:
        nodes = self._nodes[row_entries(self._ptr, deal.units)[0]].sort().values
        trained = self.batch.train_mask[nodes]
        nodes = torch.cat([nodes[trained], nodes[~trained]])
        return self._subgraph(nodes, int(trained.sum()), induced_subgraph(self.batch.graph, nodes))


class NeighborSampler(SubgraphSampler):
    """Batches that partition the training nodes, with a sample of the edges that lead to them."""

    def __init__(self, batch: NodeBatch, count: int, seed: int, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        trained = batch.train_mask.nonzero().flatten()
        super().__init__(batch, count, seed, trained, trained[:0])

    def make(self, deal: Deal) -> NodeBatch:
        draws = Draws(self.seed, f"neighbors {deal.epoch} {deal.number}")
        nodes, graph = sample_neighbors(self.batch.graph, deal.units.sort().values, self._sizes, draws)
        return self._subgraph(nodes, len(deal.units), graph)


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

    ``sizes`` are the maximal numbers of edges into a seed, into a node reached from there, and so on. The edges into a
    node are sampled once, without replacement, when the node is first reached; the nodes reached last have none.

    Returns:
        The nodes in the order in which they are reached, seeds first, and the sampled edges between them.
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
    """The entries of some rows of a CSR matrix, row by row: their positions, and the index into ``rows`` of each."""
    count = ptr[rows + 1] - ptr[rows]
    row = torch.repeat_interleave(torch.arange(len(rows)), count)
    skipped = ptr[rows] - (count.cumsum(0) - count)
    return torch.arange(len(row)) + skipped[row], row


def _sample_each_group(group: Int[Tensor, "members"], size: int, draws: Draws) -> Int[Tensor, "kept"]:
    """Up to ``size`` random members of each group; the members of a group are neighbours in ``group``."""
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
