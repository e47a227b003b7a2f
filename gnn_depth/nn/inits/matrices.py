"""Initialisations that draw a stack matrix by matrix, and the library defaults."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from gnn_depth.nn.parts import Init, Layer
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.ranges import NonNegative
from gnn_depth.registry import described, register

Distribution: TypeAlias = Literal["normal", "uniform"]


@register("init", "default")
class DefaultInit(Init):
    """Library defaults: draw layers as PyTorch Geometric does, and linear maps as PyTorch does."""

    def draw(self, stack: DeepGNN) -> None:
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            layer.reset_parameters()
        for linear in stack.linear_maps():
            linear.reset_parameters()


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
    """Draw the matrices of a stack one by one, and everything else in a layer as PyTorch Geometric
    does.

    Biases are zero, and by default attention parameters are zero too, so that attention starts
    uniform.

    Attributes:
        looks_linear: True if matrices are mirrored so that activations remove nothing. The decoder
            must then read only the last state.
    """

    looks_linear: ClassVar[bool] = False

    @abstractmethod
    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        """Draw a matrix (outputs, inputs), in place."""

    def draw_attention(self, head: Tensor) -> None:
        """Draw the attention parameters of a head, a matrix (1, channels), in place."""
        nn.init.zeros_(head)

    def draw(self, stack: DeepGNN) -> None:
        if self.looks_linear and stack.jump != "last":
            raise ValueError(
                f"{described(type(self))} mirrors what the decoder reads of one state: use jump "
                f"last, not {stack.jump}."
            )
        for layer in stack.layers:
            assert isinstance(layer, Layer)
            chain = layer.weight_chain()
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
    """The place of a layer's matrix; a side of the matrix that lies inside the layer is not
    activated."""
    chain = layer.weight_chain()
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
    reads = len(stack.layers) if linear is stack.decoder else 0
    for position, skip in enumerate(stack.skips):
        if any(linear is module for module in skip.modules()) and skip.reads == "input":
            reads = position
    return Place(hidden=False, activated=False, reads_activated=_activates(stack, reads))


def _activates(stack: DeepGNN, state: int) -> bool:
    """True if the state of this number, 0 before the first layer, has passed an activation that
    changes it."""
    if (state == 0 and not stack.first_activation) or (
        state == len(stack.layers) and not stack.last_activation
    ):
        return False
    below_zero = torch.tensor([-1.0], device="cpu")  # a number even where the stack is on "meta"
    return not torch.equal(stack.activation(below_zero), below_zero)


@register("init", "xavier")
class Xavier(MatrixInit):
    r"""Xavier (Glorot) initialisation: keeps the variance of activations and gradients.

    .. math:: \mathrm{Var}(W_{ij}) = g^2 \frac{2}{n_{in} + n_{out}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels). Biases are
    zero. Other parameters of a layer are drawn as PyTorch Geometric does. Glorot & Bengio,
    *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010.

    Args:
        distribution: ``normal`` or ``uniform``.
        gain: g, a factor on the standard deviation.
    """

    def __init__(self, distribution: Distribution = "normal", gain: NonNegative = 1.0) -> None:
        self.distribution = distribution
        self.gain = gain

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = nn.init.xavier_normal_ if self.distribution == "normal" else nn.init.xavier_uniform_
        draw(weight, gain=self.gain)

    def draw_attention(self, head: Tensor) -> None:
        self.draw_matrix(head, Place(hidden=True, activated=False, reads_activated=False))


@register("init", "xavier_zero_attention")
class XavierZeroAttention(Xavier):
    """Xavier with zero attention: matrices are Xavier's; attention starts uniform.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Xav Z).

    Args:
        distribution: ``normal`` or ``uniform``.
        gain: A factor on the standard deviation.
    """

    draw_attention = MatrixInit.draw_attention


@register("init", "kaiming")
class Kaiming(MatrixInit):
    r"""Kaiming (He) initialisation: keeps the variance of activations through ReLUs.

    .. math:: \mathrm{Var}(W_{ij}) = \frac{2}{n_{in}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels). Biases are
    zero. Other parameters of a layer are drawn as PyTorch Geometric does. He et al., *Delving Deep
    into Rectifiers*, ICCV 2015.

    Args:
        distribution: ``normal`` or ``uniform``.
    """

    def __init__(self, distribution: Distribution = "normal") -> None:
        self.distribution = distribution

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = (
            nn.init.kaiming_normal_ if self.distribution == "normal" else nn.init.kaiming_uniform_
        )
        draw(weight, nonlinearity="relu")

    def draw_attention(self, head: Tensor) -> None:
        self.draw_matrix(head, Place(hidden=True, activated=False, reads_activated=False))


@register("init", "orthogonal")
class Orthogonal(MatrixInit):
    r"""Orthogonal initialisation: matrices have orthonormal rows or columns; attention starts
    uniform.

    .. math:: W W^\top = g^2 I \quad \mathrm{or} \quad W^\top W = g^2 I

    Saxe, McClelland & Ganguli, *Exact solutions to the nonlinear dynamics of learning in deep
    linear neural networks*, ICLR 2014.

    Args:
        gain: g, the norm of these rows or columns.
    """

    def __init__(self, gain: NonNegative = 1.0) -> None:
        self.gain = gain

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        nn.init.orthogonal_(weight, gain=self.gain)


@register("init", "identity")
class IdentityInit(MatrixInit):
    r"""Identity initialisation: hidden matrices are identities; input and output matrices are
    Xavier's.

    .. math:: W_{ij} = 1 \mathrm{~if~} i \equiv j \mathrm{~modulo~} \min(n_{in}, n_{out}), \mathrm{~else~} 0

    A matrix that is not square repeats the identity. Attention starts uniform.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, appendix.
    """

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        if place.hidden:
            repeat_identity_(weight)
        else:
            nn.init.xavier_normal_(weight)


@register("init", "looks_linear_identity")
class LooksLinearIdentity(MatrixInit):
    """Looks-linear identity: hidden matrices are mirrored identities of half the size.

    Input and output matrices are drawn as Xavier does. Attention starts uniform.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, appendix.
    """

    looks_linear = True

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        if place.hidden:
            mirror_(weight, repeat_identity_, place)
        else:
            nn.init.xavier_normal_(weight)


@register("init", "looks_linear_orthogonal")
class LooksLinearOrthogonal(MatrixInit):
    r"""Looks-linear orthogonal: mirror orthogonal matrices so that ReLUs remove nothing; attention
    starts uniform.

    .. math:: W^1 = [D; -D], \quad W^l = [[D, -D], [-D, D]], \quad W^L = [D, -D]

    Each D is a separate random orthogonal matrix. A side without an activation is not mirrored: the
    input side of the first layer if there is an encoder, and the output side of the last layer if
    there is a decoder. Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023
    (LLortho); the structure is that of Shang et al., *Understanding and Improving Convolutional
    Neural Networks via Concatenated ReLUs*, ICML 2016.
    """

    looks_linear = True

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        mirror_(weight, nn.init.orthogonal_, place)


@register("init", "looks_linear_xavier")
class LooksLinearXavier(MatrixInit):
    """Looks-linear Xavier: mirror Xavier's matrices of half the size; attention starts uniform.

    The matrices are those of Glorot & Bengio 2010, mirrored as in Shang et al. 2016. The
    combination is ours.

    Args:
        distribution: ``normal`` or ``uniform``.
    """

    looks_linear = True

    def __init__(self, distribution: Distribution = "normal") -> None:
        self.distribution = distribution

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = nn.init.xavier_normal_ if self.distribution == "normal" else nn.init.xavier_uniform_
        mirror_(weight, draw, place)


def mirror_(weight: Tensor, draw: Callable[[Tensor], Tensor], place: Place) -> None:
    r"""Draw a mirrored matrix, whose positive and negative halves together undo the activation
    between two layers.

    .. math:: [D; -D], \quad [D, -D], \quad [[D, -D], [-D, D]]

    Rows are mirrored if an activation follows, columns if one precedes. Since
    :math:`\mathrm{ReLU}(z) - \mathrm{ReLU}(-z) = z`, maps and ReLUs together are linear. If the
    width is odd, the last neuron has no mirror image.

    Args:
        weight: The matrix.
        draw: Draws D, in place.
        place: Its place in the stack.
    """
    rows, columns = weight.shape
    half = (
        (rows + 1) // 2 if place.activated else rows,
        (columns + 1) // 2 if place.reads_activated else columns,
    )
    drawn = draw(weight.new_empty(half))
    drawn = torch.cat([drawn, -drawn]) if place.activated else drawn
    drawn = torch.cat([drawn, -drawn], 1) if place.reads_activated else drawn
    with torch.no_grad():
        weight.copy_(drawn[:rows, :columns])


@torch.no_grad()
def repeat_identity_(weight: Tensor) -> Tensor:
    """The identity, repeated along the longer side of a matrix."""
    rows, columns = (
        torch.arange(size, device=weight.device) % min(weight.shape) for size in weight.shape
    )
    return weight.copy_(rows[:, None] == columns)
