"""Skip connections.

To add one, subclass Skip and decorate it with ``@register("skip", name)``.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.graph import Graph
from gnn_depth.nn.parts import Skip, WeightChain
from gnn_depth.ranges import Finite, Fraction
from gnn_depth.registry import register

__all__ = ["Dense", "Gated", "InitialResidual", "LayerScale", "NoSkip", "ReZero", "Residual"]

Rows: TypeAlias = Float[Tensor, "nodes _"]


def _project(in_channels: int, out_channels: int) -> nn.Module:
    """The identity if the widths are equal, otherwise a linear map without bias."""
    if in_channels == out_channels:
        return nn.Identity()
    return nn.Linear(in_channels, out_channels, bias=False)


def _weights(project: nn.Module) -> tuple[Tensor, ...]:
    """The matrix of a projection, if it has one."""
    return (project.weight,) if isinstance(project, nn.Linear) else ()


@register("skip", "none")
class NoSkip(Skip):
    r"""No skip connection: pass on only the layer's output, :math:`X^{l+1} = F(X^l)`."""

    reads = "nothing"
    adds_input = False

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        return update


class _Adding(Skip):
    """Adds the state it reads, after a linear map without bias if the widths differ."""

    adds: ClassVar[Literal["input", "first"] | None] = "input"

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        width_read = widths[0] if self.reads == "first" else widths[-1]
        self.project = _project(width_read, out_channels)

    def weight_chain(self) -> WeightChain:
        weights = _weights(self.project)
        return WeightChain(incoming=weights, outgoing=weights)


@register("skip", "residual")
class Residual(_Adding):
    r"""Residual connection: add the layer's input to its output, :math:`X^{l+1} = X^l + F(X^l)`.

    If the widths differ, the input passes a linear map without bias first.
    He et al., *Deep Residual Learning*, CVPR 2016.
    """

    invertible = True

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        if isinstance(self.project, nn.Identity):
            self.adds_input = True

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        return self.project(states[-1]) + update


class _Scaled(_Adding):
    """X + scale * F(X), with a learned scale."""

    invertible = True

    def __init__(self, widths: list[int], out_channels: int, scale: Float[Tensor, "_"]) -> None:
        super().__init__(widths, out_channels)
        self.scale = nn.Parameter(scale)

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        return self.project(states[-1]) + self.scale * update


@register("skip", "rezero")
class ReZero(_Scaled):
    r"""ReZero: add the layer's output, multiplied by a learned number, to its input.

    .. math:: X^{l+1} = X^l + \alpha F(X^l)

    With :math:`\alpha = 0`, a stack of any depth starts as encoder and decoder alone. If the widths
    differ, the input passes a linear map without bias first. Bachlechner et al., *ReZero is All You
    Need*, UAI 2021.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of alpha.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 0.0) -> None:
        super().__init__(widths, out_channels, torch.full((1,), float(initial)))


@register("skip", "layer_scale")
class LayerScale(_Scaled):
    r"""LayerScale: add the layer's output, each channel multiplied by a learned number, to its
    input.

    .. math:: X^{l+1} = X^l + F(X^l) \, \mathrm{diag}(\lambda)

    If the widths differ, the input passes a linear map without bias first. Touvron et al., *Going
    Deeper with Image Transformers*, ICCV 2021. They start at 0.1 for up to 18 layers, at 1e-5 for
    24 and at 1e-6 for more.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        initial: Initial value of every entry of lambda.
    """

    def __init__(self, widths: list[int], out_channels: int, initial: Finite = 1e-5) -> None:
        super().__init__(widths, out_channels, torch.full((out_channels,), float(initial)))


@register("skip", "gated")
class Gated(Skip):
    r"""Gated (highway) connection: a learned gate mixes the layer's output and its input, per node
    and channel.

    .. math:: X^{l+1} = T \odot F(X^l) + (1 - T) \odot X^l, \qquad T = \sigma(X^l W + b)

    If the widths differ, the input passes a linear map without bias before it is mixed in.
    Srivastava, Greff & Schmidhuber, *Highway Networks*, 2015; for graphs Rahimi, Cohn & Baldwin,
    *Semi-supervised User Geolocation via Graph Convolutional Networks*, ACL 2018.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
        bias: Initial value of every entry of b. Initially each layer keeps about :math:`1 -
            \sigma(b)` of its input. With -3 this is 0.95, which leaves a fifth after 32 layers.
            With -1 it is 0.73, which leaves 1 part in 20,000.
    """

    adds = "input"

    def __init__(self, widths: list[int], out_channels: int, bias: Finite = -3.0) -> None:
        super().__init__(widths, out_channels)
        self.gate = nn.Linear(widths[-1], out_channels, bias=False)
        # Separate from the linear map, because inits set the biases of linear maps to zero.
        self.bias = nn.Parameter(torch.full((out_channels,), float(bias)))
        self.project = _project(widths[-1], out_channels)

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        # The gate reads the state before the projection.
        opened = torch.sigmoid(self.gate(states[-1]) + self.bias)
        return opened * update + (1 - opened) * self.project(states[-1])

    def weight_chain(self) -> WeightChain:
        projected = _weights(self.project)
        return WeightChain(incoming=projected, outgoing=(*projected, self.gate.weight))


@register("skip", "initial_residual")
class InitialResidual(_Adding):
    r"""Initial residual: mix the first state into every layer's output.

    .. math:: X^{l+1} = (1 - \alpha) F(X^l) + \alpha X^0

    The first state is the input of the first layer. If the widths differ, it passes a linear map
    without bias first; each layer has its own map. Chen et al., *Simple and Deep Graph
    Convolutional Networks*, ICML 2020 (GCNII). They mix before the weights and the activation of
    the layer; here, as with all skip connections, the first state is mixed in after them.

    Args:
        widths: Widths of all earlier states; the first one is that of the first state.
        out_channels: Width of the layer's output.
        alpha: Weight of the first state; at 1 the layers would have no effect.
    """

    reads = "first"
    adds = "first"

    def __init__(self, widths: list[int], out_channels: int, alpha: Fraction = 0.1) -> None:
        super().__init__(widths, out_channels)
        self.alpha = alpha

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        return (1 - self.alpha) * update + self.alpha * self.project(states[0])

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}"


@register("skip", "dense")
class Dense(Skip):
    r"""Dense connection: concatenate the layer's output to its input, :math:`X^{l+1} = [X^l,
    F(X^l)]`.

    Every layer and the decoder read the first state and the outputs of all earlier layers. The
    width grows with each layer, and memory and the number of weights grow with the square of the
    depth. Huang et al., *Densely Connected Convolutional Networks*, CVPR 2017; for graphs Li et
    al., *DeepGCNs*, ICCV 2019.

    Args:
        widths: Widths of all earlier states; the last one is the layer's input.
        out_channels: Width of the layer's output.
    """

    def __init__(self, widths: list[int], out_channels: int) -> None:
        super().__init__(widths, out_channels)
        self.width = widths[-1] + out_channels

    def forward(self, update: Rows, states: Sequence[Tensor], graph: Graph) -> Rows:
        return torch.cat([states[-1], update], 1)
