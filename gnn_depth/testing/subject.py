"""A way of using a part: what it is built with, what goes in, what comes out."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.testing.suite import Violation

#: How parameters are moved away from the ones and zeros that they begin as, which hide mistakes.
MOVED = 0.1


def nothing(part: nn.Module, inputs: Sequence[Tensor]) -> None:
    """What most parts do before a pass."""


@dataclass(frozen=True)
class Subject:
    """A function of rows of features and a graph, which a part computes.

    Attributes:
        label: What messages call it.
        make: The class, with its options.
        build: Makes the part, of the widths that the inputs have.
        draw: Makes inputs of so many rows, in float64.
        apply: Calls the part.
        width: Of what comes out.
        takes_sources: Whether its rows on a block are the sources, or the targets.
        by_rows: Whether it says that the first nodes alone get what they get among all.
        prepare: What a stack does before a pass in training.
    """

    label: str
    make: Callable[..., Any]
    build: Callable[[Any], Any]
    draw: Callable[[int], tuple[Tensor, ...]]
    apply: Callable[[Any, Sequence[Tensor], Graph], Tensor]
    width: Callable[[Any], int]
    takes_sources: bool = False
    by_rows: Callable[[Any], bool] = lambda part: False
    prepare: Callable[[Any, Sequence[Tensor]], None] = nothing

    def __str__(self) -> str:
        return self.label

    def part(self, dtype: torch.dtype = torch.float64, seed: int = 0) -> nn.Module:
        """A new part, the same for the same seed, with its parameters moved a little."""
        with seeded(seed), torch.no_grad():
            part: nn.Module = self.build(self.make).to(dtype)
            for parameter in part.parameters():
                parameter.add_(MOVED * torch.randn(parameter.shape, dtype=torch.float64).to(dtype))
        return part

    def inputs(self, graph: Graph, dtype: torch.dtype = torch.float64, seed: int = 1) -> tuple[Tensor, ...]:
        with seeded(seed):
            drawn = self.draw(graph.num_sources if self.takes_sources else graph.num_nodes)
        return tuple(x.to(dtype) for x in drawn)

    def run(self, part: Any, inputs: Sequence[Tensor], graph: Graph, training: bool = False, seed: int = 2) -> Tensor:
        """What the part makes of copies of the inputs, in training or evaluation.

        Raises:
            Violation: That is no tensor.
        """
        copies = [x.clone() for x in inputs]
        with seeded(seed):
            part.train(training)
            if training:
                with torch.no_grad():
                    self.prepare(part, copies)
            out = self.apply(part, copies, graph)
        if not isinstance(out, Tensor):
            raise Violation(f"{self}: forward returns {type(out).__name__}, and not a tensor.")
        return out

    def modes(self, graph: Graph) -> dict[bool, str]:
        """Evaluation, and training unless random numbers decide what comes out of it."""
        part, inputs = self.part(), self.inputs(graph)
        one, other = (self.run(part, inputs, graph, True, seed) for seed in (2, 3))
        evaluation = {False: f"{self} in evaluation"}
        return evaluation | ({True: f"{self} in training"} if torch.equal(one, other) else {})


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of a seed, for a while."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
