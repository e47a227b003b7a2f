"""What the batches of an epoch are made of, where each is a part of one graph."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.csr import pointers
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.data.chunks import chunks
from gnn_depth.data.draws import Draws
from gnn_depth.data.epochs import EpochLoader, check_divided
from gnn_depth.data.subgraphs import entries, induced, sampled
from gnn_depth.graph import Graph

Part: TypeAlias = tuple[int, Tensor]


class Parts(ABC):
    """Units of a graph, nodes or chunks of them, dealt out anew in every epoch, so that each part has some to train on.

    Args:
        batch: The whole graph.
        count: Parts of an epoch.
        seed: Who is where; of an epoch, it depends on the seed and the epoch alone.
        trained: The units that have training nodes.
        others: The units that have none.

    Raises:
        DataError: There are more parts than units that have training nodes.
    """

    #: What the units are called.
    units: str

    def __init__(self, batch: NodeBatch, count: int, seed: int, trained: Tensor, others: Tensor) -> None:
        if count > len(trained):
            raise DataError(
                f"parts is {count}, but there are only {len(trained)} {self.units}, and every batch needs one: take "
                f"parts {len(trained)} or fewer."
            )
        self.batch, self.count, self.seed = batch, count, seed
        self._trained, self._others = trained, others
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the parts of an epoch, counted from 0."""
        self.epoch = epoch

    def deal(self) -> list[Part]:
        """The number and the units of each part of the epoch."""
        draws = Draws(self.seed, f"parts {self.epoch}")
        order = torch.cat([units[draws.permutation(len(units))] for units in (self._trained, self._others)])
        return [(part, order[part :: self.count]) for part in range(self.count)]

    @abstractmethod
    def make(self, part: Part) -> NodeBatch:
        """The batch of a part: its training nodes come first, and only these have classes."""

    def _make(self, nodes: Int[Tensor, "part"], trained: int, graph: Graph) -> NodeBatch:
        seeds = nodes[:trained]
        every, none = torch.ones(trained, dtype=torch.bool), torch.zeros(trained, dtype=torch.bool)
        return NodeBatch(self.batch.x[nodes], self.batch.y[seeds], graph, every, none, none)


class NodeParts(Parts):
    """Parts that share out all nodes, with the edges inside each.

    Args:
        batch, count, seed: As of all parts.
        unit: The unit of each node: itself, or a chunk.

    Raises:
        DataError: There are more parts than units that have training nodes.
    """

    def __init__(self, batch: NodeBatch, count: int, seed: int, unit: Int[Tensor, "nodes"]) -> None:
        self._nodes, self._ptr = torch.argsort(unit, stable=True), pointers(unit, int(unit.max()) + 1)
        self.units = "training nodes" if len(self._ptr) > len(unit) else "chunks that have training nodes"
        trained = torch.zeros(len(self._ptr) - 1, dtype=torch.bool)
        trained[unit[batch.train_mask]] = True
        super().__init__(batch, count, seed, trained.nonzero().flatten(), (~trained).nonzero().flatten())

    def make(self, part: Part) -> NodeBatch:
        nodes = self._nodes[entries(self._ptr, part[1])[0]].sort().values
        trained = self.batch.train_mask[nodes]
        nodes = torch.cat([nodes[trained], nodes[~trained]])
        return self._make(nodes, int(trained.sum()), induced(self.batch.graph, nodes))


class Neighborhoods(Parts):
    """Parts that share out the training nodes, with some of the edges that lead to them.

    Args:
        batch, count, seed: As of all parts.
        sizes: How many edges into a node are kept at most: of the training nodes, of the nodes met there, and so on.

    Raises:
        DataError: There are more parts than training nodes.
    """

    units = "training nodes"

    def __init__(self, batch: NodeBatch, count: int, seed: int, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        trained = batch.train_mask.nonzero().flatten()
        super().__init__(batch, count, seed, trained, trained[:0])

    def make(self, part: Part) -> NodeBatch:
        number, seeds = part
        draws = Draws(self.seed, f"neighbors {self.epoch} {number}")
        nodes, graph = sampled(self.batch.graph, seeds.sort().values, self._sizes, draws)
        return self._make(nodes, len(seeds), graph)


def chunk_parts(batch: NodeBatch, count: int, seed: int, joined: int) -> NodeParts:
    """Parts of several chunks each.

    Args:
        batch, count, seed: As of all parts.
        joined: Chunks of a part.

    Raises:
        DataError: There are fewer nodes than chunks, or more parts than chunks that have training nodes.
    """
    if count * joined > len(batch.x):
        raise DataError(
            f"parts {count} x chunks {joined} are more chunks than the graph has nodes, {len(batch.x)}: take fewer."
        )
    return NodeParts(batch, count, seed, chunks(batch.graph, count * joined, Draws(seed, "chunks")))


class PartLoader(EpochLoader):
    """A loader of the parts that are one process's: every so manyth of them.

    Args:
        parts: The parts of each epoch.
        rank: Which process it is.
        processes: How many there are.
        done: How many batches of its epoch a training has behind it that is resumed in the middle of one.

    Raises:
        DataError: The processes do not divide the parts.
    """

    def __init__(self, parts: Parts, rank: int, processes: int, done: Callable[[], int]) -> None:
        super().__init__(parts, parts.make, done)
        check_divided("parts", parts.count, processes)
        self._all, self._rank, self._processes = parts, rank, processes

    def parts(self) -> Sequence[Part]:
        return self._all.deal()[self._rank :: self._processes]

    def __len__(self) -> int:
        return self._all.count // self._processes
