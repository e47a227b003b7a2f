"""Loaders whose batches differ from epoch to epoch, and which a resumed training takes up where it was."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import lightning as L

from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError


@runtime_checkable
class Sampler(Protocol):
    """What decides on the batches of an epoch. Lightning says which epoch it is, counted from 0."""

    def set_epoch(self, epoch: int) -> None: ...


class EpochLoader(ABC):
    """A loader of batches that are a function of the epoch.

    A training that was stopped in the middle of an epoch goes on with the batches that were left. All that is lost is
    what Lightning kept of the others for the means of that epoch, ``train/loss`` among them.

    Args:
        sampler: What decides on them.
        make: Makes a batch of what it is made of.
        done: How many batches of its epoch a training has behind it that is resumed in the middle of one.
    """

    def __init__(self, sampler: Sampler, make: Callable[[Any], NodeBatch], done: Callable[[], int]) -> None:
        self.sampler = sampler  # the name under which Lightning looks for set_epoch
        self._make, self._done = make, done
        self._resumed = False

    @abstractmethod
    def parts(self) -> Sequence[Any]:
        """What the batches of this process are made of, in the epoch that the sampler has been told."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[NodeBatch]:
        # A generator begins when the first batch is asked for: Lightning makes iterators before it says which epoch.
        first, self._resumed = self._done() if self._resumed else 0, False
        yield from map(self._make, islice(self.parts(), first, None))

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the epoch and the batches that are done are in Lightning's part of a checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next epoch where the training was stopped."""
        self._resumed = True


def rank_and_processes(trainer: L.Trainer | None) -> tuple[int, int]:
    """Which process of a training this is, and how many there are; one without a trainer."""
    return (trainer.global_rank, trainer.world_size) if trainer else (0, 1)


def check_divided(what: str, number: int, processes: int) -> None:
    """Refuse what the processes do not divide: one of them would wait for a batch for ever.

    Args:
        what: What is divided.
        number: How much of it there is.
        processes: How many there are.

    Raises:
        DataError: They do not; the numbers nearby that they divide are named.
    """
    if number % processes:
        near = number // processes * processes
        raise DataError(
            f"{what} {number} is for all {processes} processes together, and they do not divide it: "
            f"take {f'{near} or ' if near else ''}{near + processes}."
        )


def batches_done(trainer: L.Trainer | None) -> int:
    """Batches that a resumed training has behind it in its epoch."""
    assert trainer is not None
    return int(trainer.fit_loop.epoch_loop.batch_progress.current.ready)
