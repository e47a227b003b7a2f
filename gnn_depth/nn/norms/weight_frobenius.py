"""Frobenius normalisation: keep the Frobenius norm of weight matrices below a bound."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.nn.functional import widen
from gnn_depth.nn.norms.limits import Mode, check_choice, describe, limit_of, limited
from gnn_depth.nn.parts import WeightNorm
from gnn_depth.ranges import Positive
from gnn_depth.registry import register


@register("norm", "weight_frobenius")
class FrobeniusNorm(WeightNorm):
    r"""Frobenius norm: hold the Frobenius norm of every weight matrix at or below a bound.

    .. math:: \tilde W = W \min \big( 1, c / \|W\|_F \big) \quad (\mathrm{cap}), \qquad
        \tilde W = c \, W / \|W\|_F \quad (\mathrm{exact})

    The Frobenius norm is at least the spectral norm, so the guarantees of :class:`SpectralNorm` hold. The limit is
    stricter, by a factor of up to the square root of the width. It acts on the same matrices and needs no iterations.
    Ours, for comparison.

    Args:
        num_layers: Number of layers of the stack.
        bound: The limit c; 1 by default.
        per_depth: Set c = k / L instead, for L layers; k is this number.
        mode: ``cap`` scales down larger matrices only; ``exact`` scales all matrices to the bound.

    Raises:
        ValueError: There is no such mode, both bounds are given, or one is not positive.
    """

    def __init__(
        self, num_layers: int, bound: Positive | None = None, per_depth: Positive | None = None, mode: Mode = "cap"
    ) -> None:
        super().__init__(num_layers)
        self.bound = limit_of("FrobeniusNorm", num_layers, bound, per_depth)
        check_choice("mode of FrobeniusNorm", mode, Mode)
        self.mode = mode

    def forward(self, weight: Float[Tensor, "outputs inputs"]) -> Float[Tensor, "outputs inputs"]:
        return limited(weight, torch.linalg.vector_norm(widen(weight)), self.bound, self.mode)

    def extra_repr(self) -> str:
        return describe(self.bound, self.mode)
