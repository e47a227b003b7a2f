"""Looks-linear orthogonal initialisation."""

import torch
from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place, half_shape, mirrored
from gnn_depth.registry import register


@register("init", "looks_linear_orthogonal")
class LooksLinearOrthogonal(MatrixInit):
    r"""Looks-linear orthogonal: mirror orthogonal matrices so that ReLUs remove nothing; attention starts uniform.

    .. math:: W^1 = [D; -D], \quad W^l = [[D, -D], [-D, D]], \quad W^L = [D, -D]

    Each D is a separate random orthogonal matrix. A side without an activation is not mirrored: the input side of the
    first layer if there is an encoder, and the output side of the last layer if there is a decoder.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023 (LLortho); the structure is that of Shang
    et al., *Understanding and Improving Convolutional Neural Networks via Concatenated ReLUs*, ICML 2016.
    """

    treats = ("dying_signal", "rank_collapse", "vanishing_gradients")

    looks_linear = True

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        drawn = nn.init.orthogonal_(weight.new_empty(half_shape(tuple(weight.shape), place)))
        with torch.no_grad():
            weight.copy_(mirrored(drawn, tuple(weight.shape), place))
