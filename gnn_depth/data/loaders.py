"""Loaders that make their batches on demand, and resume in the middle of an epoch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

import lightning as L

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError

Content = TypeVar("Content")


# Apart from EpochLoader: when it evaluates, Lightning wants a batch_sampler beside any sampler.
@dataclass(eq=False)
class FixedLoader(Generic[Content]):
    """A loader that makes the same batches every time, from the content of each."""

    contents: Sequence[Content]
    make: Callable[[Content], NodeBatch]

    def __iter__(self) -> Iterator[NodeBatch]:
        return map(self.make, self.contents)

    def __len__(self) -> int:
        return len(self.contents)


@dataclass(eq=False)
class EpochLoader(Generic[Content]):
    """A loader of batches that are a function of the epoch.

    A run that was stopped in mid-epoch continues with the remaining batches of that epoch. Only
    Lightning's running means of the epoch, such as ``train/loss``, lose the batches before the
    stop.

    Attributes:
        plan: The content of each batch of this process in an epoch, counted from 0.
        make: Makes a batch from its content.
        length: Batches of an epoch.
        trainer: The trainer that knows how many batches of the epoch a resumed run has completed.
    """

    plan: Callable[[int], Sequence[Content]]
    make: Callable[[Content], NodeBatch]
    length: int
    trainer: L.Trainer | None = None
    # No fields, as they have no type.
    _epoch = 0
    _resumed = False

    @property
    def sampler(self) -> "EpochLoader[Content]":
        """Lightning calls ``loader.sampler.set_epoch`` before each epoch."""
        return self

    def set_epoch(self, epoch: int) -> None:
        """Switch to the batches of an epoch, counted from 0."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[NodeBatch]:
        # A generator starts when the first batch is requested: Lightning creates iterators before
        # it sets the epoch.
        done = 0
        if self._resumed and self.trainer is not None:
            done = int(self.trainer.fit_loop.epoch_loop.batch_progress.current.ready)
        self._resumed = False  # the next epoch is whole
        yield from map(self.make, islice(self.plan(self._epoch), done, None))

    def __len__(self) -> int:
        return self.length

    def state_dict(self) -> dict[str, object]:
        """Empty: Lightning's own state already holds the epoch and the number of batches."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Start the next epoch where the run was stopped."""
        self._resumed = True


def share(trainer: L.Trainer | None, option: str, value: int) -> tuple[int, int]:
    """This process's rank and the number of processes, (0, 1) without a trainer, which must divide
    an option's value.

    Raises:
        DataError: They do not divide it, so that one would wait forever for its last batch.
    """
    if trainer is None:
        return 0, 1
    processes = trainer.world_size
    if value % processes:
        raise DataError(
            f"{option} {value} is not divisible by the {processes} processes that share it."
        )
    return trainer.global_rank, processes
