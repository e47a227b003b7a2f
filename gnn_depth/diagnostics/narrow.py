"""Sums of float32 on CPUs, several times as fast as in float64 and to as many digits as are wanted.

A few entries are summed in float32, where they lose nothing to speak of, and these sums in float64. What is too small
or too large for the squares of float32, or not far enough apart, is seen in the sum, which costs nothing to look at on
a CPU. On other devices float64 costs little, and to look at a number a wait, so they count in float64.
"""

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


def serves(rows: Float[Tensor, "rows channels"]) -> bool:
    """Whether :func:`mean_and_centred` takes such rows and is worth a try."""
    in_float32 = rows.dtype == torch.float32 and rows.device.type == "cpu" and rows.is_contiguous()
    return in_float32 and rows.numel() >= FEWEST and rows.shape[1] >= FEWEST_COLUMNS


def mean_and_centred(
    rows: Float[Tensor, "rows channels"],
) -> tuple[Float[Tensor, "channels"], Float[Tensor, ""]] | None:
    """The mean of at most ``MOST_ROWS`` rows and the sum of squares of what differs from it, to five digits.

    None where only float64 has as many: of nearly equal rows, and of squares for which float32 has no room.
    """
    mean, variances = torch.batch_norm_update_stats(rows, None, None, 0.0)  # both in one call, by columns
    variance = variances.sum(dtype=torch.float64)
    size = variance.item()
    if LOW < size < HIGH and size > NEARLY_EQUAL * mean.dot(mean).item():
        return mean.double(), variance.mul_(len(rows))
    return None


def _by_rows(x: Tensor) -> Float[Tensor, ""]:
    lengths = torch.linalg.vector_norm(x, dim=-1).flatten().double()
    return lengths.dot(lengths)
