"""One block of a stack: join, dropout, layer, norms."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import SparseFeatures, dropout
from gnn_depth.nn.parts import Layer, Skip
from gnn_depth.nn.placement import FeatureNorms


class Flow(NamedTuple):
    """The state that one block hands to the next.

    Attributes:
        update: U, the layer's output after its norms; before the first block, the encoded features.
        graph: The graph that the layer saw; None before the first block.
        states: The earlier states that the next join reads, oldest first.
        outputs: The earlier states that the decoder reads.
        first: The first state, for layers that read it.
        carried: The second state of a skip connection that carries one.
    """

    update: Any  # Tensor | SparseFeatures
    graph: Graph | None = None
    states: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    first: Tensor | None = None
    carried: Tensor | None = None


class Join(nn.Module):
    r"""Turns an update into the next state.

    .. math:: X = \mathrm{skip}(\phi(U), \mbox{earlier states})

    Args:
        activation: :math:`\phi`.
        skip: The skip connection.
        norms: Feature norms after the skip connection, or None.
    """

    def __init__(
        self, activation: Callable[[Tensor], Tensor], skip: Skip, norms: FeatureNorms | None
    ) -> None:
        super().__init__()
        self.activation = activation
        self.skip = skip
        self.norms = norms

    def forward(
        self,
        update: Tensor,
        states: tuple[Tensor, ...],
        graph: Graph,
        carried: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The next state, and the second state of a skip connection that carries one.

        On a block (a graph with more sources than targets) only the targets have an update, and
        only their rows of earlier states are joined.
        """
        update = self.activation(update)
        rows = [state if len(state) == len(update) else state[: len(update)] for state in states]
        if self.skip.carries:
            state, carried = self.skip(
                update, rows, graph, None if carried is None else carried[: len(update)]
            )
        else:
            state = self.skip(update, rows, graph)
        return state if self.norms is None else self.norms(state, graph), carried


class State(nn.Module):
    """The identity: a place for hooks on the state that enters a layer and on its graph."""

    def forward(self, x: Any, graph: Graph) -> Any:
        return x


class Block(nn.Module):
    r"""One round of message passing.

    .. math:: X^l = \mathrm{join}(U^l), \qquad U^{l+1} = \mathrm{norms}(\mathrm{layer}(\mathrm{dropout}(X^l)))

    A block begins with the activation and the skip connection of the previous layer. A stack
    without skip connections then stores a single tensor per block, :math:`U`, for the backward
    pass.

    Args:
        join: Turns the update into a state; None in the first block, which reads the encoded
            features.
        dropout: Probability of dropping an input feature of the layer in training.
        layer: The message-passing layer.
        norms: Feature norms of the layer's output, or None.
        keeps: How the state is kept for later joins: not at all (``nothing``), instead of earlier
            states (``input``), or in addition to them (``all``).
        is_output: True if the decoder reads the state.
        is_first: True if the state is the first one, and layers read it.

    Attributes:
        state: An identity applied to the state before dropout, as a place for hooks.
    """

    def __init__(
        self,
        join: Join | None,
        dropout: float,
        layer: Layer,
        norms: FeatureNorms | None,
        keeps: Literal["nothing", "input", "all"] = "nothing",
        is_output: bool = False,
        is_first: bool = False,
    ) -> None:
        super().__init__()
        self.join = join
        self.state = State()
        self.dropout = dropout
        self.layer = layer
        self.norms = norms
        self.keeps = keeps
        self.is_output = is_output
        self.is_first = is_first
        self.returns_state = keeps != "nothing" or is_output or is_first

    def forward(self, flow: Flow, graph: Graph, run: Callable[..., Any] | None = None) -> Flow:
        """Pass messages once; ``run`` is the compiled form of :meth:`compute`, if there is one."""
        update, before, carried = flow.update, flow.graph, flow.carried
        if self.join is not None and before is not None and self.join.skip.reads == "all":
            # Every block has one more state and would need its own compilation, so this join runs
            # uncompiled.
            (update, carried), before = self.join(update, flow.states, before, carried), None
        compute: Callable[..., tuple[Tensor, Any, Tensor | None]] = run or Block.compute
        update, state, carried = compute(
            self,
            update,
            flow.states if before is not None else (),
            before,
            graph,
            flow.first,
            carried,
        )
        states, outputs, first = flow.states, flow.outputs, flow.first
        if self.keeps != "nothing":
            states = (state,) if self.keeps == "input" else (*states, state)
        if self.is_output:
            outputs = (*outputs, state)
        if self.is_first:
            first = state
        return Flow(update, graph, states, outputs, first, carried)

    def compute(
        self,
        update: Any,
        states: tuple[Tensor, ...],
        before: Graph | None,
        graph: Graph,
        first: Tensor | None = None,
        carried: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The tensor operations of a block, compiled as one: the new update, the state if it is
        kept, the second state.

        Without the graph of the block before there is nothing to join.
        """
        x = update
        if self.join is not None and before is not None:
            x, carried = self.join(update, states, before, carried)
        if not torch.compiler.is_compiling():
            x = self.state(x, graph)
        return self.message(x, graph, first), x if self.returns_state else None, carried

    def message(self, x: Any, graph: Graph, first: Tensor | None = None) -> Tensor:
        """Apply dropout, layer and norms: compute the update from a state."""
        numbers = graph.node_numbers
        if isinstance(x, SparseFeatures):
            dropped: Any = x.dropout(self.dropout, self.training, numbers)
        else:
            dropped = graph.fetch(dropout(x, self.dropout, self.training, numbers))
        if self.layer.reads_first:
            update = self.layer(dropped, graph, x if first is None else first)
        else:
            update = self.layer(dropped, graph)
        return update if self.norms is None else self.norms(update, graph)
