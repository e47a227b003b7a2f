"""Norms of weight matrices: weight normalisation, the Frobenius norm, and a base with a limit."""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.nn.functional import widen
from gnn_depth.nn.parts import Matrix, WeightNorm
from gnn_depth.ranges import Positive, in_range
from gnn_depth.registry import register

Mode: TypeAlias = Literal["cap", "exact"]

#: Matrices and rows smaller than this are left unchanged, because the division could overflow.
TINY = 1e-30


class LimitedNorm(WeightNorm):
    """A norm that limits the size of a matrix.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.

    Raises:
        ValueError: There is no such mode, or both bounds are given.
    """

    @in_range
    def __init__(
        self,
        num_layers: int,
        bound: Positive | None = None,
        per_depth: Positive | None = None,
        mode: Mode = "cap",
    ) -> None:
        super().__init__(num_layers)
        if bound is not None and per_depth is not None:
            raise ValueError(
                f"{type(self).__name__} takes bound {bound}, or per_depth {per_depth} for a bound "
                f"of {per_depth} / num_layers: give one."
            )
        self.bound = 1.0
        if bound is not None:
            self.bound = bound
        elif per_depth is not None:
            self.bound = per_depth / num_layers
        self.mode = mode

    def limited(self, weight: Matrix, size: Float[Tensor, ""]) -> Matrix:
        """Scale a matrix of this size down to the limit, in mode ``exact`` also up; zero stays."""
        if self.mode == "cap":
            stretch = size.clamp_min(self.bound) / self.bound  # 1 for smaller matrices
        else:
            stretch = torch.where(size > TINY, size / self.bound, 1.0)
        return (weight * stretch.reciprocal()).to(weight.dtype)


@register("norm", "weight_frobenius")
class FrobeniusNorm(LimitedNorm):
    r"""Frobenius norm: hold the Frobenius norm of every weight matrix at or below a bound.

    .. math:: \tilde W = W \min \big( 1, c / \|W\|_F \big) \quad (\mathrm{cap}), \qquad
        \tilde W = c \, W / \|W\|_F \quad (\mathrm{exact})

    The Frobenius norm is at least the spectral norm, so the guarantees of :class:`SpectralNorm`
    hold. The limit is stricter, by a factor of up to the square root of the width. It acts on the
    same matrices and needs no iterations. Ours, for comparison.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.
    """

    def forward(self, weight: Matrix) -> Matrix:
        return self.limited(weight, torch.linalg.vector_norm(widen(weight)))


@register("norm", "weight")
class WeightNormalisation(WeightNorm):
    r"""Weight normalisation: learn the length of each neuron's weights apart from their direction.

    .. math:: \tilde W_{i:} = g_i \, W_{i:} / \|W_{i:}\|

    where the learned g starts at :math:`\|W_{i:}\|`, which leaves W unchanged. It bounds nothing.
    Zero weights stay zero. Salimans & Kingma, *Weight Normalization*, NeurIPS 2016, like
    :func:`torch.nn.utils.parametrizations.weight_norm`, but safe for zero weights. It acts on the
    same matrices as :class:`SpectralNorm`.

    Args:
        num_layers: Number of layers of the stack.
    """

    length: nn.Parameter | None

    def __init__(self, num_layers: int) -> None:
        super().__init__(num_layers)
        self.register_parameter("length", None)

    def forward(self, weight: Matrix) -> Matrix:
        assert self.length is not None, "reset_state comes before the first pass"
        size = _lengths(weight)
        factor = self.length[:, None] / torch.where(size > TINY, size, 1.0)
        return (weight * factor).to(weight.dtype)

    def reset_state(self, weight: Matrix) -> None:
        length = _lengths(weight.detach())[:, 0].to(weight.dtype)
        if self.length is None:
            self.length = nn.Parameter(length)
        else:  # keep the parameter: an optimizer may hold it already
            self.length.copy_(length)


def _lengths(weight: Matrix) -> Float[Tensor, "outputs 1"]:
    return torch.linalg.vector_norm(widen(weight), dim=1, keepdim=True)
