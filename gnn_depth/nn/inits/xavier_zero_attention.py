"""Xavier initialisation with zero attention parameters."""

from typing import Literal

from torch import Tensor

from gnn_depth.nn.inits.matrices import MatrixInit, Place
from gnn_depth.nn.inits.xavier import Xavier
from gnn_depth.ranges import NonNegative
from gnn_depth.registry import register


@register("init", "xavier_zero_attention")
class XavierZeroAttention(MatrixInit):
    """Xavier with zero attention: matrices are Xavier's; attention starts uniform.

    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (Xav Z).

    Args:
        distribution: ``normal`` or ``uniform``.
        gain: A factor on the standard deviation.
    """

    def __init__(self, distribution: Literal["normal", "uniform"] = "normal", gain: NonNegative = 1.0) -> None:
        self.matrices = Xavier(distribution, gain)

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        self.matrices.draw_matrix(weight, place)
