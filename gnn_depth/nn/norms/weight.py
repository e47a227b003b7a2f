"""Weight normalisation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.nn.functional import widen
from gnn_depth.nn.norms.limits import TINY
from gnn_depth.nn.parts import WeightNorm
from gnn_depth.registry import register


@register("norm", "weight")
class WeightNormalisation(WeightNorm):
    r"""Weight normalisation: learn the length of each neuron's weights apart from their direction.

    .. math:: \tilde W_{i:} = g_i \, W_{i:} / \|W_{i:}\|

    where the learned g starts at :math:`\|W_{i:}\|`, which leaves W unchanged. It bounds nothing. Zero weights stay
    zero. Salimans & Kingma, *Weight Normalization*, NeurIPS 2016, like
    :func:`torch.nn.utils.parametrizations.weight_norm`, but safe for zero weights. It acts on the same matrices as
    :class:`SpectralNorm`.

    Args:
        num_layers: Number of layers of the stack.
    """

    length: nn.Parameter | None

    def __init__(self, num_layers: int) -> None:
        super().__init__(num_layers)
        self.register_parameter("length", None)

    def forward(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        assert self.length is not None, "settled before it is read"
        size = _lengths(weight)
        return (weight * (self.length[:, None] / torch.where(size > TINY, size, 1.0))).to(weight.dtype)

    def settle(self, weight: Float[Tensor, "outputs inputs"]) -> None:
        length = _lengths(weight.detach())[:, 0].to(weight.dtype)
        if self.length is None:
            self.length = nn.Parameter(length)
        else:  # keep the parameter: an optimizer may hold it already
            self.length.copy_(length)


def _lengths(weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs 1"]:
    return torch.linalg.vector_norm(widen(weight), dim=1, keepdim=True)
