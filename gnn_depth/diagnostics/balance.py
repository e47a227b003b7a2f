r"""How far neurons are from balance, and how well the conservation law of their weights holds.

.. math:: c_i = \sum_{W \in in} \|W_{i:}\|^2 - \sum_a a_i^2 - \sum_{W \in out} \|W_{:i}\|^2, \qquad
    \delta_i = \sum_{W \in in} \langle W_{i:}, \nabla W_{i:} \rangle - \sum_a a_i \nabla a_i
    - \sum_{W \in out} \langle W_{:i}, \nabla W_{:i} \rangle

where biases count as columns of the matrix that comes in. The gradient is that of the loss itself: read it after the
backward pass, divided by the factor of a scaled loss, before clipping. Then :math:`\delta = 0`, and c is constant under
gradient flow: Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, theorem 2.2 and corollary 2.3.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor


class Share(Protocol):
    """A parameter, and the axis along which its neurons lie; None where every entry belongs to another neuron."""

    @property
    def parameter(self) -> Tensor: ...

    @property
    def axis(self) -> int | None: ...


class Link(Protocol):
    """Neurons, and the shares that parameters have in what comes into them, attends to them and leaves them.

    Its states are the features that they are: 0 enters the first layer, l leaves the l-th.
    """

    @property
    def states(self) -> Sequence[int]: ...

    @property
    def incoming(self) -> Sequence[Share]: ...

    @property
    def attention(self) -> Sequence[Share]: ...

    @property
    def outgoing(self) -> Sequence[Share]: ...


def imbalance(link: Link) -> Float[Tensor, "neurons"]:
    """The c of every neuron."""
    return _incoming_minus_outgoing(link, torch.square)


def defect(link: Link, gradient: Callable[[Tensor], Tensor | None]) -> Float[Tensor, "neurons"]:
    """The delta of every neuron.

    Args:
        link: The neurons.
        gradient: That of the loss by a parameter; None counts as zero.
    """

    def product(parameter: Tensor) -> Tensor:
        slope = gradient(parameter)
        return torch.zeros_like(parameter) if slope is None else parameter * slope

    return _incoming_minus_outgoing(link, product)


def size(link: Link) -> Float[Tensor, "neurons"]:
    """The sum of the squares around every neuron: what an imbalance is large or small against."""
    everything = (*link.incoming, *link.attention, *link.outgoing)
    return _of_neurons(everything, torch.square)


def _incoming_minus_outgoing(link: Link, of: Callable[[Tensor], Tensor]) -> Tensor:
    return _of_neurons(link.incoming, of) - _of_neurons((*link.attention, *link.outgoing), of)


def _of_neurons(shares: Sequence[Share], of: Callable[[Tensor], Tensor]) -> Tensor:
    """A value of every entry of the parameters, summed by neuron."""
    with torch.no_grad():
        values = [(of(share.parameter), share.axis) for share in shares]
        return torch.stack([v.flatten() if axis is None else v.sum(1 - axis) for v, axis in values]).sum(0)
