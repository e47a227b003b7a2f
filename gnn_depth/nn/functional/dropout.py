"""Dropout without a stored mask: it is recomputed from two random numbers and the positions."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from gnn_depth.nn.functional.rules import differentiable
from gnn_depth.nn.native import kernels

# The mask is a hash of the position: multiply, mix high bits into low ones, three times. Two rounds
# leave neighbouring elements correlated. The constants come from a search for integer hashes with
# little bias (Wellons, "Prospecting for hash functions", 2018).
FIRST = 0x7FEB352D
SECOND = 0x846CA68B - 2**32
LEVELS = 2**31


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
    return dropout_by(draw_seed(x, p, training), x, p, rows)


def draw_seed(x: Tensor, p: float, training: bool) -> Tensor | None:
    """The two random numbers that determine a mask for a tensor; None if nothing is dropped."""
    if not training or p == 0:
        return None
    return torch.randint(-(2**31), 2**31 - 1, (2,), dtype=torch.int32, device=x.device)


def dropout_by(seed: Tensor | None, x: Tensor, p: float, rows: Tensor | None = None) -> Tensor:
    """:func:`dropout` with the mask of given random numbers; None drops nothing."""
    if seed is None or (x.numel() == 0 and rows is None):
        return x
    if p == 1:  # there is no factor 1 / (1 - p)
        return x * 0
    return _dropout(x, seed, p, rows)


def draw_mask(x: Tensor, p: float, training: bool) -> kernels.Mask:
    """A mask for a tensor."""
    seed = draw_seed(x, p, training)
    if seed is None:
        return kernels.NO_DROPOUT
    return kernels.Mask(seed, p, _threshold(p))


def dropout_at(positions: Tensor, values: Tensor, p: float, training: bool = True) -> Tensor:
    """:func:`dropout` of a tensor, for the values at some of its positions only."""
    seed = draw_seed(values, p, training)
    if seed is None:
        return values
    if p == 1:
        return values * 0
    is_kept = kept(positions, seed, p).to(values.dtype)
    return values * is_kept * (1 / (1 - p))


def kept(positions: Tensor, seed: Tensor, p: float) -> Tensor:
    """1 for positions that are kept, 0 for the others, as int32; the seed is a pair of int32."""
    bits = (positions ^ seed[0]) * FIRST
    bits = ((bits ^ (bits >> 15)) + seed[1]) * SECOND
    bits = (bits ^ (bits >> 16)) * FIRST
    # The sign of a difference: compiled code stores booleans much slower than numbers.
    return 1 + (((bits >> 1) - _threshold(p)) >> 31)


def _threshold(p: float) -> int:
    """The threshold that half the hash, from -2^30 to 2^30, is below with probability p."""
    return round(p * LEVELS) - LEVELS // 2


class _Dropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: Tensor, p: float, rows: Tensor | None) -> Tensor:
        ctx.p, ctx.rows = p, rows
        ctx.save_for_backward(seed)
        if rows is None and kernels.serve(None, x):
            return kernels.drop_by_hash(x, kernels.Mask(seed, p, _threshold(p)))
        return _reference(x, seed, p, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (seed,) = ctx.saved_tensors
        return _dropout(grads[0], seed, ctx.p, ctx.rows), None, None, None


def _positions(x: Tensor, rows: Tensor | None = None) -> Tensor:
    """0, 1, 2, ... in the shape of x, as int32; or the positions of rows with other numbers."""
    columns = 1
    if x.dim():
        columns = x.shape[-1]
    if rows is None:
        rows = torch.arange(x.numel() // columns, dtype=torch.int32, device=x.device)
    rows = rows.int()  # larger positions wrap around, and repeat masks, as documented
    column = torch.arange(columns, dtype=torch.int32, device=x.device)
    return (rows[:, None] * columns + column).view(x.shape)


def _reference(x: Tensor, seed: Tensor, p: float, rows: Tensor | None) -> Tensor:
    is_kept = kept(_positions(x, rows), seed, p).to(x.dtype)
    return x * (is_kept * (1 / (1 - p)))


_dropout = differentiable(_Dropout, _reference)
