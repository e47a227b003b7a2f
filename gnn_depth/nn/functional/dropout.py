"""Dropout without a stored mask: it is recomputed from two random numbers and the positions."""

import torch
from torch import Tensor

from gnn_depth.nn.functional.rules import Primitive, linear
from gnn_depth.nn.native import kernels
from gnn_depth.nn.native.masks import Mask

# The mask is a hash of the position: multiply, mix high bits into low ones, three times. Two rounds
# leave neighbouring elements correlated. The constants come from a search for integer hashes with
# little bias (Wellons, "Prospecting for hash functions", 2018).
FIRST = 0x7FEB352D
SECOND = 0x846CA68B - 2**32


def dropout(x: Tensor, p: float, training: bool = True, rows: Tensor | None = None) -> Tensor:
    r"""Zero each element with probability p and scale the others by 1 / (1 - p).

    Two 32-bit numbers are drawn from torch's generator for a call; the rest is arithmetic, so the
    mask is the same for any number of threads, in compiled code and without it. p is rounded to a
    multiple of :math:`2^{-31}`, and positions repeat after :math:`2^{32}` elements.

    Args:
        x: Any tensor.
        p: Probability of zero.
        training: False returns x.
        rows: Numbers of the rows of x, if these are rows of a larger tensor: they get the mask that
            they have there.
    """
    return dropout_by(draw_mask(x, p, training), x, rows)


def draw_mask(x: Tensor, p: float, training: bool) -> Mask:
    """A mask for a tensor; one without random numbers drops nothing."""
    if not training or p == 0:
        return Mask()
    return Mask(torch.randint(-(2**31), 2**31 - 1, (2,), dtype=torch.int32, device=x.device), p)


def dropout_by(mask: Mask, x: Tensor, rows: Tensor | None = None) -> Tensor:
    """:func:`dropout` with a given mask."""
    if mask.seed is None or (x.numel() == 0 and rows is None):
        return x
    return _dropout(x, mask, rows)


def dropout_at(positions: Tensor, values: Tensor, p: float, training: bool = True) -> Tensor:
    """:func:`dropout` of a tensor, for the values at some of its positions only."""
    mask = draw_mask(values, p, training)
    if mask.seed is None:
        return values
    return values * (kept(positions, mask).to(values.dtype) * mask.scale)


def kept(positions: Tensor, mask: Mask) -> Tensor:
    """1 for positions that are kept, 0 for the others, as int32."""
    assert mask.seed is not None
    bits = (positions ^ mask.seed[0]) * FIRST
    bits = ((bits ^ (bits >> 15)) + mask.seed[1]) * SECOND
    bits = (bits ^ (bits >> 16)) * FIRST
    # The sign of a difference: compiled code stores booleans much slower than numbers.
    return 1 + (((bits >> 1) - mask.threshold) >> 31)


def _positions(x: Tensor, rows: Tensor | None = None) -> Tensor:
    """0, 1, 2, ... in the shape of x, as int32; or the positions of rows with other numbers."""
    columns = x.shape[-1] if x.dim() else 1
    if rows is None:
        rows = torch.arange(x.numel() // columns, dtype=torch.int32, device=x.device)
    rows = rows.int()  # larger positions wrap around, and repeat masks, as documented
    column = torch.arange(columns, dtype=torch.int32, device=x.device)
    return (rows[:, None] * columns + column).view(x.shape)


def _reference(x: Tensor, mask: Mask, rows: Tensor | None) -> Tensor:
    is_kept = kept(_positions(x, rows), mask).to(x.dtype)
    return x * (is_kept * mask.scale)


def _drop(x: Tensor, mask: Mask, rows: Tensor | None) -> Tensor:
    if rows is None and kernels.serve([x]):
        return kernels.drop(x, mask)
    return _reference(x, mask, rows)


_dropout: Primitive = linear(_drop, lambda *given: _dropout(*given), _reference)
