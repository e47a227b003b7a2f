"""Orthogonal initialisation."""

from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place
from gnn_depth.ranges import NonNegative
from gnn_depth.registry import register


@register("init", "orthogonal")
class Orthogonal(MatrixInit):
    r"""Orthogonal initialisation: matrices have orthonormal rows or columns; attention starts uniform.

    .. math:: W W^\top = g^2 I \quad \mathrm{or} \quad W^\top W = g^2 I

    Saxe, McClelland & Ganguli, *Exact solutions to the nonlinear dynamics of learning in deep linear neural networks*,
    ICLR 2014.

    Args:
        gain: g, the norm of these rows or columns.
    """

    def __init__(self, gain: NonNegative = 1.0) -> None:
        self.gain = gain

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        nn.init.orthogonal_(weight, gain=self.gain)
