"""Kaiming initialisation."""

from typing import Literal

from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place
from gnn_depth.registry import register


@register("init", "kaiming")
class Kaiming(MatrixInit):
    r"""Kaiming (He) initialisation: keeps the variance of activations through ReLUs.

    .. math:: \mathrm{Var}(W_{ij}) = \frac{2}{n_{in}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels). Biases are zero. Other
    parameters of a layer are drawn as PyTorch Geometric does.
    He et al., *Delving Deep into Rectifiers*, ICCV 2015.

    Args:
        distribution: ``normal`` or ``uniform``.
    """

    treats = ("dying_signal", "vanishing_gradients")

    def __init__(self, distribution: Literal["normal", "uniform"] = "normal") -> None:
        self.distribution = distribution

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = nn.init.kaiming_normal_ if self.distribution == "normal" else nn.init.kaiming_uniform_
        draw(weight, nonlinearity="relu")

    def draw_attention(self, head: Tensor) -> None:
        self.draw_matrix(head, Place(hidden=True, activated=False, reads_activated=False))
