"""A block of a stack, the earlier hidden states that blocks read, and the loop over all blocks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import torch.nn.functional as F
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.functional import SparseFeatures, dropout, first_rows
from gnn_depth.nn.parts import Layer, Skip
from gnn_depth.nn.placement import FeatureNorms
from gnn_depth.torch_internals import has_hooks

#: A hidden state; the first one may be the sparse features themselves.
Hidden: TypeAlias = Any  # Tensor | SparseFeatures


@dataclass
class States:
    """The hidden states of a forward pass that are kept for a skip connection, layer or decoder.

    Attributes:
        keeps_all: True if some part reads all states.
        first: The input of the first block.
        all: The inputs of all blocks so far, if they are kept, oldest first.
        carried: The second state of a skip connection that carries one from block to block; None
            before the first block.
    """

    keeps_all: bool = False
    first: Hidden = None
    all: list[Tensor] = field(default_factory=list)
    carried: Tensor | None = None

    def add(self, x: Hidden) -> None:
        """Keep the input of the next block, if some part reads it later."""
        if self.first is None:
            self.first = x
        if self.keeps_all:
            self.all.append(x)

    def read_by(self, skip: Skip, x: Hidden, num_nodes: int) -> list[Tensor]:
        """The states that a skip connection reads: their rows of the first ``num_nodes`` nodes.

        ``x`` is the input of the block.
        """
        known = {"nothing": [], "input": [x], "first": [self.first], "all": self.all}
        return [first_rows(state, num_nodes) for state in known[skip.reads]]


class Block(nn.Module):
    r"""One round of message passing.

    .. math:: X^{l+1} = \mathrm{skip}(
        \phi(\mathrm{norms}(\mathrm{layer}(\mathrm{dropout}(X^l)))), \mbox{states})

    Args:
        layer: The message-passing layer.
        norms: Feature norms of the layer's output.
        activation: :math:`\phi`.
        skip: The skip connection.
        norms_after_skip: Feature norms of the skip connection's output.
        dropout: Probability of dropping an input feature of the layer in training.
    """

    #: Hooks on hidden states belong on blocks: a block gets the whole hidden state, and its layer
    #: what dropout leaves of it.
    takes_hidden_state: ClassVar[bool] = True

    def __init__(
        self,
        layer: Layer,
        norms: FeatureNorms,
        activation: Callable[[Tensor], Tensor],
        skip: Skip,
        norms_after_skip: FeatureNorms,
        dropout: float,
    ) -> None:
        super().__init__()
        self.layer = layer
        self.norms = norms
        self.activation = activation
        self.skip = skip
        self.norms_after_skip = norms_after_skip
        self.dropout = dropout

    def forward(self, x: Hidden, graph: Graph, states: States) -> Tensor:
        """The next hidden state.

        On a graph with more sources than targets only the targets have a next state.
        """
        update = self.update(x, graph, states.first)
        # Targets are the first nodes. Only they have an update, so only their rows of earlier
        # states are joined to it.
        num_nodes = update.shape[0]  # len() would fix it in an exported model
        earlier = states.read_by(self.skip, x, num_nodes)
        if self.skip.carries:
            carried = states.carried
            if carried is not None:
                carried = first_rows(carried, num_nodes)
            x, states.carried = self.skip(update, earlier, graph, carried)
        else:
            x = self.skip(update, earlier, graph)
        return self.norms_after_skip(x, graph)

    def update(self, x: Hidden, graph: Graph, first: Tensor | None) -> Tensor:
        """The update of the hidden state, before the skip: dropout, layer, norms, activation."""
        # On one process's part of a graph, neighbours elsewhere send their rows here.
        x = graph.fetch(drop_features(x, self.dropout, self.training, graph))
        x = self.layer(x, graph, first) if self.layer.reads_first else self.layer(x, graph)
        return self.activation(self.norms(x, graph))


class FusedBlock(Block):
    r"""A block without norms, which its layer may compute at once: see :meth:`Layer.whole_block`.

    .. math:: X^{l+1} = [X^l +] \phi(\mathrm{layer}(X^l)),

    where the activation :math:`\phi` is ReLU, or none.
    """

    def forward(self, x: Hidden, graph: Graph, states: States) -> Tensor:
        """The next hidden state, by one kernel where the layer has one: the same numbers."""
        # Hooks want to see their module called, and dropout of the input is no part of the kernel.
        is_watched = has_hooks(self.layer) or has_hooks(self.skip)
        if not (is_watched or (self.dropout and self.training)):
            is_residual = self.skip.adds_input is True
            whole = self.layer.whole_block(x, graph, self.activation is F.relu, is_residual)
            if whole is not None:
                return whole
        return super().forward(x, graph, states)


class Blocks(nn.ModuleList):
    """The blocks of a stack, run one after the other.

    Attributes:
        takes_prefixes: True if a block may be given fewer nodes, the first ones, than the block
            before it.
    """

    takes_prefixes: ClassVar[bool] = True

    def forward(self, x: Hidden, graphs: Sequence[Graph], states: States) -> Tensor:
        """Compute the last hidden state from the first one and the graph of each block."""
        for block, graph in zip(self, graphs, strict=True):
            states.add(x)
            x = block(x, graph, states)
        return x


def drop_features(x: Hidden, p: float, training: bool, graph: Graph) -> Hidden:
    """Apply dropout to node features, with the same mask for any number of processes."""
    if isinstance(x, SparseFeatures):
        return x.dropout(p, training, graph.node_numbers)
    return dropout(x, p, training, graph.node_numbers)


def unchanged(x: Tensor) -> Tensor:
    """The identity, for a layer without an activation."""
    return x
