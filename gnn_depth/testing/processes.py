"""Training of a part in several processes at once."""

import datetime
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn
from torch.nn.parallel import DistributedDataParallel

from gnn_depth.testing.graphs import mixed
from gnn_depth.testing.properties import Called
from gnn_depth.testing.subjects import Subject
from gnn_depth.testing.suite import Violation

PATIENCE = 60  # seconds that a process waits for the others
STEPS = 3


class Source(NamedTuple):
    """Makes the subjects, here and in other processes: subjects themselves hold functions that cannot be pickled.

    Attributes:
        make: Makes the subjects from a class and its options.
        cls: The part.
        options: Its options.
    """

    make: Callable[[Any, dict[str, Any]], list[Subject]]
    cls: type
    options: dict[str, Any]

    def __call__(self) -> list[Subject]:
        return self.make(self.cls, self.options)


def in_processes(source: Source, processes: int, subject: Subject) -> None:
    """Processes that train together on different features keep the same parameters."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            spawn(_train, (processes, folder, source), nprocs=processes)  # type: ignore[no-untyped-call]
        except (ProcessRaisedException, ProcessExitedException) as error:
            last = str(error).strip().splitlines()[-1]
            raise Violation(f"{subject}, {processes} processes: {last}") from None


def _train(rank: int, processes: int, folder: str, source: Source) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=Path(folder, "meeting").as_uri(),
        rank=rank,
        world_size=processes,
        timeout=datetime.timedelta(seconds=PATIENCE),
    )
    try:
        for subject in source():
            _take_steps(subject, rank, processes)
    finally:
        dist.destroy_process_group()


def _take_steps(subject: Subject, rank: int, processes: int) -> None:
    graph = mixed()
    part = subject.part(seed=rank)
    parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
    if not parameters:
        return
    shared = DistributedDataParallel(part)
    optimizer = torch.optim.SGD(shared.parameters(), 0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        inputs = subject.inputs(graph, seed=processes * step + rank)
        torch.autograd.backward(subject.apply(Called(part, shared), inputs, graph).square().mean())
        optimizer.step()
    for name, parameter in part.named_parameters():
        everywhere = [torch.empty_like(parameter) for _ in range(processes)]
        dist.all_gather(everywhere, parameter.detach())
        if any(not torch.equal(everywhere[0], other) for other in everywhere):
            raise Violation(f"{subject}: after {STEPS} steps the processes have different {name}.")
