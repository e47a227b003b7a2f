"""Dot products of each head's features with vectors of that head."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.nn.functional.linear import linear

# Sums over fewer numbers than a vector register holds are computed one number at a time.
NARROW = 16


def head_dots(
    x: Float[Tensor, "nodes heads channels"], *vectors: Float[Tensor, "heads channels"]
) -> tuple[Float[Tensor, "nodes heads"], ...]:
    r"""The products :math:`y_{ih} = a_h \cdot x_{ih}` for each of several vectors a.

    Narrow heads use one matrix product with the vectors on a block diagonal, which is faster. There, a single infinite
    entry makes all products of its node NaN.
    """
    heads, channels = x.shape[1:]
    if channels >= NARROW or any(a.dtype != x.dtype for a in vectors):  # the sum is in the wider type of the two
        return tuple((x * a).sum(-1) for a in vectors)
    diagonal = torch.eye(heads, dtype=x.dtype, device=x.device)[:, :, None]
    blocks = torch.cat([(diagonal * a).flatten(1) for a in vectors])
    return torch.split(linear(x.flatten(1), blocks), heads, 1)
