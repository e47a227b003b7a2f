"""One round of message passing as a function: the unit that is compiled, once for all rounds of equal shape."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.anchored import AnchoredLayer
from gnn_depth.nn.functional import SparseFeatures, dropout
from gnn_depth.nn.parts import Layer, Skip


class Join(NamedTuple):
    """How the update of one round becomes the input of the next: activation, skip connection, norms that come after it.

    Of a round on a block only the targets have an update, and of the states only their rows are joined.
    """

    skip: Skip
    activation: Callable[[Tensor], Tensor]
    norms: nn.Module | None
    graph: Graph

    def __call__(self, update: Any, states: list[Tensor]) -> Tensor:
        rows = len(update)
        joined: Tensor = self.skip(self.activation(update), [x if len(x) == rows else x[:rows] for x in states])
        return joined if self.norms is None else self.norms(joined, self.graph)


class Features(NamedTuple):
    """What a round begins with: the update of the round before it, and the states that its join reads.

    The state that comes of them passes ``seen``, an identity, where somebody may want to see it. Layers that read the
    first of all states get ``first``, and the first layer what it begins with.
    """

    update: Tensor | SparseFeatures
    states: list[Tensor]
    join: Join | None
    seen: nn.Module | None = None
    first: Tensor | None = None


def drop(x: Any, p: float, training: bool) -> Any:
    """Dropout of features, sparse ones too."""
    return x.dropout(p, training) if isinstance(x, SparseFeatures) else dropout(x, p, training)


def block(
    before: Features, layer: Layer, norms: nn.Module | None, graph: Graph, p: float, keep: bool
) -> tuple[Tensor, Tensor | None]:
    """Join what the last round gave, drop some of it, pass messages, normalise.

    A round begins with the activation of the round before, so that a stack without skip connections keeps one
    tensor of a round for the backward pass, its update, and computes activation and dropout again.

    Args:
        before: What the round begins with.
        layer: Passes messages.
        norms: Norms of the layer's output, if they come there.
        graph: The edges.
        p: Probability of dropping an input of the layer, in training.
        keep: Whether the input is returned too, for skip connections.

    Returns:
        The update, and the input or None.
    """
    x: Any = before.update if before.join is None else before.join(before.update, before.states)
    x = x if before.seen is None else before.seen(x)
    dropped, first = drop(x, p, layer.training), x if before.first is None else before.first
    update = layer(dropped, graph, first) if isinstance(layer, AnchoredLayer) else layer(dropped, graph)
    return update if norms is None else norms(update, graph), x if keep else None
