"""Sums of float32 on CPUs, several times as fast as in float64 and to as many digits as are wanted.

A few entries are summed in float32, where they lose nothing to speak of, and these sums in float64. What is too small
or too large for the squares of float32, or not far enough apart, is seen in the sum, which costs nothing to look at on
a CPU. On other devices float64 costs little, and to look at a number a wait, so they count in float64.
"""

import math
from array import array
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

#: Sums between these have lost nothing below 1e-38 that matters, and nothing above 1e38.
LOW, HIGH = 1e-24, 1e36
#: Rows whose sum in float32 keeps five digits, also where a few rows are much larger than the others.
MOST_ROWS = 4096
#: Of fewer numbers, or columns that are few, float64 is as fast.
FEWEST, FEWEST_COLUMNS = 1 << 14, 16
#: Variance as a share of the squared mean: below it the last digits of a mean in float32 would be seen.
NEARLY_EQUAL = 1e-4


def sum_of_squares(x: Float[Tensor, "*_"]) -> Float[Tensor, ""]:
    """The sum of the squares of all entries of any tensor, in float64, which has room for those of 1e-38 and 1e30."""
    if x.dtype == torch.float32 and x.device.type == "cpu" and x.numel():
        total = _by_rows(x)
        if LOW < total.item() < HIGH:
            return total
        largest = x.abs().amax()
        if 0 < largest.item() < torch.inf:
            return _by_rows(x / largest) * largest.double().square()
    return torch.linalg.vector_norm(x, dtype=torch.float64).square()


class Moments(NamedTuple):
    """What a few rows come to in float32, to five digits.

    Not as tensors: small ones that stay until a step has ended would lie between the large ones that come and go, which
    have to move on to new pages.

    Attributes:
        rows: Their number.
        mean: Of each column.
        length: Of the mean, the root of the sum of its squares.
        variance: The mean of the squares of what differs from the mean of its column, of all columns together.
    """

    rows: int
    mean: "array[float]"
    length: float
    variance: float


def moments(rows: Float[Tensor, "rows channels"]) -> list[Moments] | None:
    """The moments of parts of the rows, each of as many as five digits allow.

    None where float64 costs little: on other devices, and of few numbers. None also where only float64 has as many
    digits: of nearly equal rows, and of squares for which float32 has no room.
    """
    if rows.dtype != torch.float32 or not rows.is_cpu or not rows.is_contiguous():
        return None
    count, channels = rows.shape
    if count * channels < FEWEST or channels < FEWEST_COLUMNS:
        return None
    parts = (rows,) if count <= MOST_ROWS else rows.tensor_split(-(-count // MOST_ROWS))
    found = []
    for part in parts:
        means, variances = torch.batch_norm_update_stats(part, None, None, 0.0)  # both in one call, by columns
        mean, variance = means.tolist(), sum(variances.tolist())
        length = math.hypot(*mean)
        if not LOW < variance < HIGH or variance < NEARLY_EQUAL * length**2:
            return None
        found.append(Moments(part.shape[0], array("d", mean), length, variance))
    return found


def _by_rows(x: Tensor) -> Float[Tensor, ""]:
    lengths = torch.linalg.vector_norm(x, dim=-1).flatten().double()
    return lengths.dot(lengths)
