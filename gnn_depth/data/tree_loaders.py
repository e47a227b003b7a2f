"""Loaders of trees: who is in which batch, of which process, in which epoch."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from gnn_depth.data.base import NodeBatch, Repeated
from gnn_depth.data.checks import DataError
from gnn_depth.data.draws import Draws
from gnn_depth.data.epochs import EpochLoader, check_divided
from gnn_depth.graph import Graph

MakeBatch = Callable[[Tensor], NodeBatch]


class Share(NamedTuple):
    """Which of the processes of a training this is."""

    rank: int
    processes: int

    def check(self, examples: int, batch_size: int) -> None:
        """Refuse what cannot be shared: a process without a batch would keep the others waiting for ever.

        Raises:
            DataError: The processes do not divide the batch size, or there are too few examples.
        """
        check_divided("batch_size", batch_size, self.processes)
        if examples < self.processes:
            raise DataError(
                f"{examples} examples are too few for {self.processes} processes: take fewer processes, "
                "or another train_fraction."
            )

    def of_training(self, order: Int[Tensor, "examples"], batch_size: int) -> Sequence[Tensor]:
        """Batches as large and as many as every other process has; the remainder of the examples is left out."""
        end = len(order) - len(order) % self.processes
        starts = range(0, end, batch_size)
        return [order[start : min(start + batch_size, end)][self.rank :: self.processes] for start in starts]

    def of_evaluation(self, order: Int[Tensor, "examples"], batch_size: int) -> Sequence[Tensor]:
        """As many batches as every other process has, as models wait for one another in each; none of them is empty.

        Every example is in one batch of one process.
        """
        size = batch_size // self.processes
        full = (len(order) // self.processes - 1) // size  # and one more, which takes the rest
        mine = order[self.rank :: self.processes]
        return mine.split_with_sizes([size] * full + [len(mine) - full * size])


class InOrder:
    """A loader of given batches.

    Args:
        parts: The examples of each batch.
        make: Makes a batch of examples.
    """

    def __init__(self, parts: Sequence[Tensor], make: MakeBatch) -> None:
        self._parts, self._make = parts, make

    def __iter__(self) -> Iterator[NodeBatch]:
        return map(self._make, self._parts)

    def __len__(self) -> int:
        return len(self._parts)


class Shuffle:
    """The order of the examples in each epoch, the same in all processes. Lightning says which epoch it is.

    Args:
        examples: The examples.
        passes: How often an epoch goes through them.
        seed: Which orders.
    """

    def __init__(self, examples: Int[Tensor, "examples"], passes: int, seed: int) -> None:
        self._examples, self._passes, self._seed = examples, passes, seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the order of an epoch, counted from 0."""
        self.epoch = epoch

    def order(self) -> Int[Tensor, "drawn"]:
        """All examples in a random order, then all in another, and so on."""
        draws = Draws(self._seed, f"tree order {self.epoch}")
        count = len(self._examples)
        return torch.cat([self._examples[draws.permutation(count)] for _ in range(self._passes)])

    def __len__(self) -> int:
        return self._passes * len(self._examples)


class Shuffled(EpochLoader):
    """A loader of batches in another order in every epoch.

    Args:
        shuffle: The order.
        share: Which of the processes this is.
        batch_size: Examples of a batch, of all processes together.
        make: Makes a batch of examples.
        done: How many batches of its epoch a training has behind it that is resumed in the middle of one.
        graph_of: The graph of a batch of so many examples.
    """

    def __init__(
        self,
        shuffle: Shuffle,
        share: Share,
        batch_size: int,
        make: MakeBatch,
        done: Callable[[], int],
        graph_of: Callable[[int], Graph],
    ) -> None:
        super().__init__(shuffle, make, done)
        self._shuffle, self._share, self._batch_size, self._graph_of = shuffle, share, batch_size, graph_of

    @property
    def repeated(self) -> Repeated:
        """The graph of all batches of an epoch but the last, which may be smaller."""
        examples = min(self._batch_size, len(self._shuffle)) // self._share.processes
        return Repeated(self._graph_of(examples), examples)

    def parts(self) -> Sequence[Tensor]:
        return self._share.of_training(self._shuffle.order(), self._batch_size)

    def __len__(self) -> int:
        return -(-(len(self._shuffle) // self._share.processes * self._share.processes) // self._batch_size)
