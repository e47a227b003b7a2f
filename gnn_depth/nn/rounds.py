"""The rounds of a stack, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.anchored import AnchoredLayer
from gnn_depth.nn.block import Features, Join, block
from gnn_depth.nn.compile.compiled import Compiled
from gnn_depth.nn.functional import SparseFeatures
from gnn_depth.nn.parts import Layer, Skip


class Round(NamedTuple):
    """One layer of a stack, what comes after it, and the edges of this pass."""

    layer: Layer
    norms: nn.Module | None
    activation: Callable[[Tensor], Tensor]
    skip: Skip | None
    state: nn.Module
    graph: Graph

    def modules(self) -> list[nn.Module]:
        parts = (self.layer, self.norms, self.skip)
        return [module for part in parts if part is not None for module in part.modules()]


class Flow(NamedTuple):
    """What passes from one round to the next: the update, and the states that are read later.

    Attributes:
        update: What the layer gave.
        states: What skips read.
        outputs: What the decoder reads.
        first: What anchored layers read.
    """

    update: Tensor | SparseFeatures
    states: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()
    first: Tensor | None = None


@dataclass(frozen=True)
class Rounds:
    """All rounds of a pass.

    Args:
        rounds: Each of them.
        run: Runs one: :func:`gnn_depth.nn.block.block`, compiled or not.
        p: Probability of dropping an input of a layer, in training.
        norm_after_skip: Whether norms come after the skip connection.
        keeps_outputs: Whether the decoder reads the outputs of all layers.
    """

    rounds: Sequence[Round]
    run: Callable[..., tuple[Tensor, Tensor | None]]
    p: float
    norm_after_skip: bool
    keeps_outputs: bool
    _compiled: set[int] = field(default_factory=set, init=False)

    def __call__(self, positions: range, flow: Flow) -> Flow:
        """Run the rounds of some positions on what comes from the round before them."""
        for position in positions:
            flow = self._round(position, flow)
        return flow

    def end(self, flow: Flow) -> list[Tensor]:
        """The outputs of the layers that the decoder reads, once all rounds have run."""
        join = self._join(len(self.rounds) - 1)
        update: Any = flow.update
        return [*flow.outputs, update if join is None else join(update, list(flow.states))]

    def _round(self, position: int, flow: Flow) -> Flow:
        update: Any = flow.update
        states, outputs, join = list(flow.states), flow.outputs, self._join(position - 1)
        if join is not None and join.skip.reads == "all":  # more of them in every round, and no two rounds alike
            update, join = join(update, states), None
        layer, norms, _, skip, seen, graph = self.rounds[position]
        before = Features(update, states, join, seen if self.run is block else None, flow.first)
        joins, jumps = _keeps(skip, states), self.keeps_outputs and position > 0
        anchors = flow.first is None and isinstance(layer, AnchoredLayer)
        on_layer = None if self.norm_after_skip else norms
        update, state = self._run(position, before, layer, on_layer, graph, self.p, joins or jumps or anchors)
        if state is None:
            return Flow(update, states, outputs, flow.first)
        outputs = (*outputs, state) if jumps else outputs
        if joins:
            states = [*states, state] if skip is not None and skip.reads == "all" else [state]
        return Flow(update, states, outputs, state if anchors else flow.first)

    def _run(self, position: int, *args: Any) -> tuple[Tensor, Tensor | None]:
        """Run a round; one that is computed again runs as it did, also if compiling another has failed since."""
        if position in self._compiled:
            assert isinstance(self.run, Compiled)
            return self.run.again(*args)
        found = self.run(*args)
        if isinstance(self.run, Compiled) and self.run.failed is None:
            self._compiled.add(position)
        return found

    def _join(self, position: int) -> Join | None:
        """How the update of a round becomes the next one's input; None for what comes before the first."""
        if position < 0 or self.rounds[position].skip is None:
            return None
        _, norms, activation, skip, _, graph = self.rounds[position]
        assert skip is not None
        return Join(skip, activation, norms if self.norm_after_skip else None, graph)


def _keeps(skip: Skip | None, states: list[Tensor]) -> bool:
    """Whether what enters a layer is kept for skip connections."""
    if skip is None or skip.reads == "nothing":
        return False
    return not states if skip.reads == "first" else True
