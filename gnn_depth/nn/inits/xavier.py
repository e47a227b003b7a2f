"""Xavier initialisation."""

from typing import Literal

from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place
from gnn_depth.ranges import NonNegative
from gnn_depth.registry import register


@register("init", "xavier")
class Xavier(MatrixInit):
    r"""Xavier (Glorot) initialisation: keeps the variance of activations and gradients.

    .. math:: \mathrm{Var}(W_{ij}) = g^2 \frac{2}{n_{in} + n_{out}}

    The attention parameters of each head are drawn like a matrix of shape (1, channels). Biases are zero. Other
    parameters of a layer are drawn as PyTorch Geometric does.
    Glorot & Bengio, *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010.

    Args:
        distribution: ``normal`` or ``uniform``.
        gain: g, a factor on the standard deviation.
    """

    def __init__(self, distribution: Literal["normal", "uniform"] = "normal", gain: NonNegative = 1.0) -> None:
        self.distribution = distribution
        self.gain = gain

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        draw = nn.init.xavier_normal_ if self.distribution == "normal" else nn.init.xavier_uniform_
        draw(weight, gain=self.gain)

    def draw_attention(self, head: Tensor) -> None:
        self.draw_matrix(head, Place(hidden=True, activated=False, reads_activated=False))
