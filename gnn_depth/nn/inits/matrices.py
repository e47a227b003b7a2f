"""Initialisations that draw a stack matrix by matrix, and the library defaults."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from gnn_depth.nn.neurons import hidden_states
from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.ranges import NonNegative
from gnn_depth.registry import described, register


@register("init", "default")
class DefaultInit(Init):
    """Library defaults: draw layers as PyTorch Geometric does, and linear maps as PyTorch does."""

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            layer.reset_parameters()  # type: ignore[operator]
        for linear in stack.linear_maps():
            linear.reset_parameters()


class MatrixRole(NamedTuple):
    """The role of a matrix in its stack.

    Attributes:
        hidden: True if it neither reads the input features nor gives the outputs.
        activated: True if an activation follows its rows.
        reads_activated: True if its columns read features that have passed an activation.
    """

    hidden: bool
    activated: bool
    reads_activated: bool


class MatrixInit(Init):
    """Draw the matrices of a stack one by one, and the rest of a layer as PyTorch Geometric does.

    Biases are zero, and by default attention parameters are zero too, so that attention starts
    uniform.

    Attributes:
        looks_linear: True if matrices are mirrored so that activations remove nothing. The decoder
            must then read only the last state.
    """

    looks_linear: bool = False

    @abstractmethod
    def draw_matrix(self, weight: Tensor, role: MatrixRole) -> None:
        """Draw a matrix (outputs, inputs), in place."""

    def draw_attention(self, attention: Tensor) -> None:
        """Draw the attention parameters of a layer, a matrix (heads, channels), in place."""
        nn.init.zeros_(attention)

    def draw(self, stack: DeepGNN) -> None:
        if self.looks_linear and stack.jump != "last":
            raise ValueError(
                f"{described(type(self))} with looks_linear mirrors what the decoder reads of one "
                f"state: use jump last, not {stack.jump}."
            )
        # A shared layer is drawn once for each of its positions; the last draw stays.
        for layer in stack.layers:
            for weight in redrawn(layer):
                self.draw_matrix(weight, _role_in_layer(stack, layer, weight))  # type: ignore[arg-type]
            for attention in layer.weight_chain().attention:  # type: ignore[operator]
                self.draw_attention(attention)
        for linear in stack.linear_maps():
            self.draw_matrix(linear.weight, _role_of_map(stack, linear))
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


def redrawn(layer: Any) -> list[Tensor]:
    """Draw a layer as the library does, with biases of zero; return the matrices of its chain."""
    matrices: list[Tensor] = (
        layer.weight_chain().matrices
    )  # refuses a layer without a chain before it is drawn
    layer.reset_parameters()
    for name, parameter in layer.named_parameters():  # those outside its weight chain too
        if name.rpartition(".")[2] == "bias":
            nn.init.zeros_(parameter)
    return matrices


def draw_layers(stack: DeepGNN, draw: Callable[[Tensor], object]) -> None:
    """Draw the matrices of all layers alike, and all else as the libraries do; biases are zero."""
    for layer in dict.fromkeys(stack.layers):  # a shared layer once
        for weight in redrawn(layer):
            draw(weight)
    for linear in stack.linear_maps():
        linear.reset_parameters()


def _role_in_layer(stack: DeepGNN, layer: Layer, weight: Tensor) -> MatrixRole:
    """The role of a layer's matrix; a side that lies inside the layer is not activated."""
    chain = layer.weight_chain()
    # A layer that is shared stands at several positions.
    positions = [position for position, other in enumerate(stack.layers) if other is layer]
    hidden = hidden_states(stack)
    # As sets: a search in a tuple would compare the numbers of matrices.
    comes_in, leaves = weight in set(chain.incoming), weight in set(chain.outgoing)
    return MatrixRole(
        hidden=all({position, position + 1} <= hidden for position in positions),
        activated=comes_in and any(_activates(stack, position + 1) for position in positions),
        reads_activated=leaves and any(_activates(stack, position) for position in positions),
    )


def _role_of_map(stack: DeepGNN, linear: nn.Linear) -> MatrixRole:
    """The role of the encoder, the decoder or a linear map of a skip connection."""
    if linear is stack.encoder:
        return MatrixRole(hidden=False, activated=_activates(stack, 0), reads_activated=False)
    # The state that it reads: the first one, if it is that of a skip connection.
    reads = len(stack.layers) if linear is stack.decoder else 0
    for position, skip in enumerate(stack.skips):
        if skip.reads == "input" and linear in set(skip.modules()):
            reads = position
    return MatrixRole(hidden=False, activated=False, reads_activated=_activates(stack, reads))


def _activates(stack: DeepGNN, state: int) -> bool:
    """True if the state, 0 before the first layer, has passed an activation that changes it."""
    if state == 0 and not stack.first_activation:
        return False
    if state == len(stack.layers) and not stack.last_activation:
        return False
    below_zero = torch.tensor([-1.0], device="cpu")  # a number even where the stack is on "meta"
    return not torch.equal(stack.activation(below_zero), below_zero)


class _Alike(MatrixInit):
    """Draws all matrices alike; with ``looks_linear`` of half the size, and mirrored."""

    def draw_matrix(self, weight: Tensor, role: MatrixRole) -> None:
        if self.looks_linear:
            mirror_(weight, self._draw, role)
        else:
            self._draw(weight)

    def _draw_by_head(self, attention: Tensor) -> None:
        for head in range(len(attention)):
            self._draw(attention[head : head + 1])

    @abstractmethod
    def _draw(self, weight: Tensor) -> Tensor:
        """Draw a matrix in place, and return it."""


@register("init", "xavier")
class Xavier(_Alike):
    r"""Xavier (Glorot) initialisation: keeps the variance of activations and gradients.

    .. math:: \mathrm{Var}(W_{ij}) = g^2 \frac{2}{n_{in} + n_{out}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels), or zero,
    so that attention starts uniform (Xav Z of Mustafa, Bojchevski & Burkholz, *Are GATs Out of
    Balance?*, NeurIPS 2023). Biases are zero. Other parameters of a layer are drawn as PyTorch
    Geometric does. Glorot & Bengio, *Understanding the difficulty of training deep feedforward
    neural networks*, AISTATS 2010.

    Args:
        gain: g, a factor on the standard deviation.
        attention: ``drawn``, ``zero``, or ``together``: the heads of a layer are drawn as one
            tensor (1, heads, channels), hence with variance :math:`2 g^2 / ((heads + 1) \,
            channels)`, as in the code of Mustafa et al. By default drawn, and zero with
            ``looks_linear``, because a stack is linear only while its attention is uniform.
        looks_linear: Mirror matrices of half the size, as :class:`Orthogonal` does; the combination
            with Xavier's matrices is ours.
    """

    def __init__(
        self,
        gain: NonNegative = 1.0,
        attention: Literal["drawn", "together", "zero"] | None = None,
        looks_linear: bool = False,
    ) -> None:
        self.gain = gain
        self.attention = attention
        self.looks_linear = looks_linear

    def draw_attention(self, attention: Tensor) -> None:
        if self.attention == "together":
            # Torch takes the third axis as a kernel: heads x channels inputs, channels outputs.
            self._draw(attention[None])
        elif self.attention == "zero" or (self.attention is None and self.looks_linear):
            nn.init.zeros_(attention)
        else:
            self._draw_by_head(attention)

    def _draw(self, weight: Tensor) -> Tensor:
        return nn.init.xavier_normal_(weight, gain=self.gain)


@register("init", "kaiming")
class Kaiming(_Alike):
    r"""Kaiming (He) initialisation: keeps the variance of activations through ReLUs.

    .. math:: \mathrm{Var}(W_{ij}) = \frac{2}{n_{in}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels). Biases are
    zero. Other parameters of a layer are drawn as PyTorch Geometric does. He et al., *Delving Deep
    into Rectifiers*, ICCV 2015.
    """

    def draw_attention(self, attention: Tensor) -> None:
        self._draw_by_head(attention)

    def _draw(self, weight: Tensor) -> Tensor:
        return nn.init.kaiming_normal_(weight, nonlinearity="relu")


@register("init", "orthogonal")
class Orthogonal(_Alike):
    r"""Orthogonal initialisation: orthonormal rows or columns, and attention that starts uniform.

    .. math:: W W^\top = g^2 I \quad \mathrm{or} \quad W^\top W = g^2 I

    Saxe, McClelland & Ganguli, *Exact solutions to the nonlinear dynamics of learning in deep
    linear neural networks*, ICLR 2014. With ``looks_linear`` matrices of half the size are
    mirrored, so that ReLUs remove nothing:

    .. math:: W^1 = [D; -D], \quad W^l = [[D, -D], [-D, D]], \quad W^L = [D, -D]

    Each D is a separate random orthogonal matrix. A side without an activation is not mirrored: the
    input side of the first layer if there is an encoder, and the output side of the last layer if
    there is a decoder. Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023
    (LLortho); the structure is that of Shang et al., *Understanding and Improving Convolutional
    Neural Networks via Concatenated ReLUs*, ICML 2016.

    Args:
        gain: g, the norm of these rows or columns; of those of D with ``looks_linear``.
        looks_linear: Mirror matrices of half the size.
    """

    def __init__(self, gain: NonNegative = 1.0, looks_linear: bool = False) -> None:
        self.gain = gain
        self.looks_linear = looks_linear

    def _draw(self, weight: Tensor) -> Tensor:
        return nn.init.orthogonal_(weight, gain=self.gain)


@register("init", "identity")
class IdentityInit(_Alike):
    r"""Identity initialisation: hidden matrices are identities, those at the ends are Xavier's.

    .. math:: W_{ij} = 1 \mathrm{~if~} i \equiv j \mathrm{~modulo~} \min(n_{in}, n_{out}),
        \mathrm{~else~} 0

    A matrix that is not square repeats the identity. Attention starts uniform.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, appendix.

    Args:
        looks_linear: Mirror hidden identities of half the size, as :class:`Orthogonal` does.
    """

    def __init__(self, looks_linear: bool = False) -> None:
        self.looks_linear = looks_linear

    def draw_matrix(self, weight: Tensor, role: MatrixRole) -> None:
        # Channels of features and outputs are not those of states.
        if not role.hidden:
            nn.init.xavier_normal_(weight)
        else:
            super().draw_matrix(weight, role)

    @torch.no_grad()
    def _draw(self, weight: Tensor) -> Tensor:
        period = min(weight.shape)
        row = torch.arange(weight.shape[0], device=weight.device) % period
        column = torch.arange(weight.shape[1], device=weight.device) % period
        return weight.copy_(row[:, None] == column)


def mirror_(weight: Tensor, draw: Callable[[Tensor], Tensor], role: MatrixRole) -> None:
    r"""Draw a mirrored matrix, whose two halves together undo the activation between two layers.

    .. math:: [D; -D], \quad [D, -D], \quad [[D, -D], [-D, D]]

    Rows are mirrored if an activation follows, columns if one precedes. Since
    :math:`\mathrm{ReLU}(z) - \mathrm{ReLU}(-z) = z`, maps and ReLUs together are linear. If the
    width is odd, the last neuron has no mirror image.

    Args:
        weight: The matrix.
        draw: Draws D, in place.
        role: Its role in the stack.
    """
    rows, columns = weight.shape
    shape = [rows, columns]
    mirrored = [axis for axis, wanted in enumerate(role[1:]) if wanted]
    for axis in mirrored:
        # Half of an odd width is rounded up, and what is too much is cut off at the end.
        shape[axis] = (shape[axis] + 1) // 2
    drawn = draw(weight.new_empty(shape))
    for axis in mirrored:
        drawn = torch.cat([drawn, -drawn], axis)
    with torch.no_grad():  # in place, as the optimizer may hold the parameter
        weight.copy_(drawn[:rows, :columns])
