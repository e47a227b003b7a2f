"""Looks-linear Xavier initialisation."""

from typing import Literal

import torch
from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place, half_shape, mirrored
from gnn_depth.registry import register


@register("init", "looks_linear_xavier")
class LooksLinearXavier(MatrixInit):
    """Looks-linear Xavier: mirror Xavier's matrices of half the size; attention starts uniform.

    The matrices are those of Glorot & Bengio 2010, mirrored as in Shang et al. 2016. The combination is ours.

    Args:
        distribution: ``normal`` or ``uniform``.
    """

    looks_linear = True

    def __init__(self, distribution: Literal["normal", "uniform"] = "normal") -> None:
        self.distribution = distribution

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = nn.init.xavier_normal_ if self.distribution == "normal" else nn.init.xavier_uniform_
        drawn = draw(weight.new_empty(half_shape(tuple(weight.shape), place)))
        with torch.no_grad():
            weight.copy_(mirrored(drawn, tuple(weight.shape), place))
