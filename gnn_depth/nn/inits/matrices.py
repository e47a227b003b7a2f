"""The base of initialisations that draw a stack matrix by matrix."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from gnn_depth.nn.neurons import chain_of
from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.registry import name_of


class Place(NamedTuple):
    """The place of a matrix in a stack.

    Attributes:
        hidden: True if it neither reads the input features nor gives the outputs.
        activated: True if an activation follows it.
        reads_activated: True if it reads features that have passed an activation.
    """

    hidden: bool
    activated: bool
    reads_activated: bool


class MatrixInit(Init):
    """Draw the matrices of a stack one by one, and everything else in a layer as PyTorch Geometric does.

    Biases are zero, and by default attention parameters are zero too.

    Attributes:
        looks_linear: True if matrices are mirrored so that activations remove nothing. The decoder must then read only
            the last state.
    """

    looks_linear: ClassVar[bool] = False

    @abstractmethod
    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        """Draw a matrix (outputs, inputs), in place."""

    def draw_attention(self, head: Tensor) -> None:
        """Draw the attention parameters of a head, a matrix (1, channels), in place."""
        nn.init.zeros_(head)

    def draw(self, stack: DeepGNN) -> None:
        found = name_of(type(self))
        name = found[1] if found else type(self).__name__
        if self.looks_linear and stack.jump != "last":
            raise ValueError(
                f"init {name!r} mirrors what the decoder reads of one state: use jump last, not {stack.jump}."
            )
        for position, layer in enumerate(stack.layers):
            chain = chain_of(layer, position, f"init {name!r}")
            assert isinstance(layer, Layer)
            layer.reset_parameters()
            for weight in dict.fromkeys((*chain.incoming, *chain.outgoing)):
                self.draw_matrix(weight, _place_in_layer(stack, layer, weight))
            for attention in chain.attention:
                for head in range(len(attention)):
                    self.draw_attention(attention[head : head + 1])
            for of, parameter in layer.named_parameters():
                if of.rpartition(".")[2] == "bias":
                    nn.init.zeros_(parameter)
        for linear in stack.linear_maps():
            self.draw_matrix(linear.weight, _place_of_map(stack, linear))
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


def _place_in_layer(stack: DeepGNN, layer: Layer, weight: Tensor) -> Place:
    """The place of a layer's matrix; a side of the matrix that lies inside the layer is not activated."""
    chain = chain_of(layer, 0, "an init")
    positions = [position for position, other in enumerate(stack.layers) if other is layer]
    comes_in = any(weight is other for other in chain.incoming)
    leaves = any(weight is other for other in chain.outgoing)
    reads_input = isinstance(stack.encoder, nn.Identity) and 0 in positions
    gives_output = not isinstance(stack.decoder, nn.Linear) and len(stack.layers) - 1 in positions
    return Place(
        hidden=not reads_input and not gives_output,
        activated=comes_in and any(_activates(stack, position + 1) for position in positions),
        reads_activated=leaves and any(_activates(stack, position) for position in positions),
    )


def _place_of_map(stack: DeepGNN, linear: nn.Linear) -> Place:
    if linear is stack.encoder:
        return Place(hidden=False, activated=_activates(stack, 0), reads_activated=False)
    reads = 0
    if linear is stack.decoder:
        reads = len(stack.layers)
    for position, skip in enumerate(stack.skips):
        if any(linear is module for module in skip.modules()) and skip.reads == "input":
            reads = position
    return Place(hidden=False, activated=False, reads_activated=_activates(stack, reads))


def _activates(stack: DeepGNN, state: int) -> bool:
    """True if the state of this number, 0 before the first layer, has passed an activation that changes it."""
    if (state == 0 and not stack.first_activation) or (state == len(stack.layers) and not stack.last_activation):
        return False
    below_zero = torch.tensor([-1.0], device="cpu")  # a number even where the stack is on "meta"
    return not torch.equal(stack.activation(below_zero), below_zero)


def mirrored(drawn: Tensor, shape: tuple[int, ...], place: Place) -> Tensor:
    r"""A mirrored matrix, whose positive and negative halves together undo the activation between two layers.

    .. math:: [D; -D], \quad [D, -D], \quad [[D, -D], [-D, D]]

    Rows are mirrored if an activation follows, columns if one precedes. Since
    :math:`\mathrm{ReLU}(z) - \mathrm{ReLU}(-z) = z`, maps and ReLUs together are linear. If the width is odd, the last
    neuron has no mirror image.

    Args:
        drawn: D, of :func:`half_shape`.
        shape: Shape of the matrix.
        place: Its place in the stack.
    """
    rows = torch.cat([drawn, -drawn]) if place.activated else drawn
    both = torch.cat([rows, -rows], 1) if place.reads_activated else rows
    return both[: shape[0], : shape[1]]


def half_shape(shape: tuple[int, ...], place: Place) -> tuple[int, int]:
    """The shape of D in :func:`mirrored`."""
    rows, columns = shape
    return (rows + 1) // 2 if place.activated else rows, (columns + 1) // 2 if place.reads_activated else columns
