"""Identity matrices in the hidden layers: plain and looks-linear."""

import torch
from torch import Tensor, nn

from gnn_depth.nn.inits.matrices import MatrixInit, Place, half_shape, mirrored
from gnn_depth.registry import register


@register("init", "identity")
class IdentityInit(MatrixInit):
    r"""Identity initialisation: hidden matrices are identities; input and output matrices are Xavier's.

    .. math:: W_{ij} = 1 \mathrm{~if~} i \equiv j \mathrm{~modulo~} \min(n_{in}, n_{out}), \mathrm{~else~} 0

    A matrix that is not square repeats the identity. Attention starts uniform.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, appendix.
    """

    treats = ("dying_signal", "rank_collapse", "vanishing_gradients")

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        if not place.hidden:
            nn.init.xavier_normal_(weight)
            return
        with torch.no_grad():
            weight.copy_(repeated_identity(weight.new_empty(weight.shape)))


@register("init", "looks_linear_identity")
class LooksLinearIdentity(MatrixInit):
    """Looks-linear identity: hidden matrices are mirrored identities of half the size.

    Input and output matrices are drawn as Xavier does. Attention starts uniform.
    Mustafa, Bojchevski & Burkholz, *Are GATs Out of Balance?*, NeurIPS 2023, appendix.
    """

    treats = ("dying_signal", "rank_collapse", "vanishing_gradients")

    looks_linear = True

    def draw_matrix(self, weight: Tensor, place: Place) -> None:
        if not place.hidden:
            nn.init.xavier_normal_(weight)
            return
        shape = tuple(weight.shape)
        half = repeated_identity(weight.new_empty(half_shape(shape, place)))
        with torch.no_grad():
            weight.copy_(mirrored(half, shape, place))


def repeated_identity(like: Tensor) -> Tensor:
    """The identity, repeated along the longer side of a matrix of that shape."""
    rows, columns = (torch.arange(size, device=like.device) % min(like.shape) for size in like.shape)
    return (rows[:, None] == columns).to(like.dtype)
