"""Row moments: the count, mean and centred sum of squares of a matrix's rows, mergeable in any
order.

They suffice to compute the similarity mu, so batches and processes merge into the result of a
single process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST = torch.finfo(torch.float64).tiny
CHUNK = 1 << 18  # numbers converted to float64 at once, so that they stay in the cache

# Float32 is summed in float32 on CPUs, where float64 is several times slower, as long as five
# digits are certain:
# A sum of squares in this range has neither lost small numbers nor overflowed.
LOW, HIGH = 1e-24, 1e36
# So many rows keep five digits even if a few rows are much larger than the rest.
MOST_ROWS = 4096
FEWEST_NUMBERS, FEWEST_COLUMNS = 1 << 14, 16  # smaller matrices are as fast in float64
NEARLY_EQUAL = 1e-4  # variance over squared mean, below which the rounding of the mean would show


@dataclass(frozen=True, eq=False)
class RowMoments:
    r"""Count, mean and centred sum of squares of rows: enough for mu, mergeable in any order.

    .. math::
        N, \quad m = \frac1N \sum_i \frac{x_i}{s}, \quad
        c = \sum_i \Big\| \frac{x_i}{s} - m \Big\|^2

    All are float64, in which the squares of float32 and smaller types fit: the scale s is 1 for
    these, and a power of two near the largest entry for rows in float64. Fields may have leading
    dimensions, such as one of layers.

    Attributes:
        count: N.
        mean: m.
        centred: c; NaN if an entry of the rows is infinite or NaN, also after merging.
        scale: s.
    """

    count: Float[Tensor, "*layers"]
    mean: Float[Tensor, "*layers channels"]
    centred: Float[Tensor, "*layers"]
    scale: Float[Tensor, "*layers"]

    @property
    def square(self) -> Float[Tensor, "*layers"]:
        r"""The sum of squares of the scaled rows, :math:`\|X / s\|_F^2 = c + N \|m\|^2`."""
        return self.centred + self.count * self.mean.square().sum(-1)

    @property
    def total(self) -> Float[Tensor, "*layers"]:
        r"""The sum of squares of the rows, :math:`\|X\|_F^2`."""
        return self.square * self.scale.square()

    @classmethod
    def of(cls, x: Float[Tensor, "*_"]) -> "RowMoments":
        """The moments of a tensor's rows, of any floating-point type, without waiting for its
        device.

        All dimensions but the last count rows, and a vector has one column. Large float32 matrices
        on a CPU are summed in float32, to five digits, unless their rows are nearly equal.
        """
        x = x.detach().to_dense()  # a dense tensor is returned as it is
        x = x.reshape(-1, 1) if x.ndim < 2 else x.flatten(0, -2)
        return _in_float32(x) or cls._in_float64(x)

    @classmethod
    def _in_float64(cls, rows: Tensor) -> "RowMoments":
        if not rows.numel():
            return cls.empty(rows.shape[1], rows.device, count=len(rows))
        scale = rows.new_ones((), dtype=torch.float64)
        if rows.dtype == torch.float64:
            scale = _scale(rows)
        # Sums are of differences from the first row: exactly zero for equal rows, and accurate for
        # nearly equal ones. The first row counts too, so the subtraction below loses no more digits
        # than N has.
        start = rows[0].double() / scale
        size = len(rows)
        if rows.is_cpu:  # parts that fit into the cache
            size = max(CHUNK // rows.shape[1], 1)
        first, *others = torch.split(rows, size)
        total, square = _sums(first, start, scale)
        for part in others:
            more, squares = _sums(part, start, scale)
            total, square = total + more, square + squares
        shift = total / len(rows)
        return cls(
            torch.full_like(scale, len(rows)), start + shift, square - shift.dot(total), scale
        )

    @classmethod
    def empty(
        cls, channels: int, device: torch.device | str | None = None, count: int = 0
    ) -> "RowMoments":
        """The moments of no rows, or of ``count`` rows of zeros; merging adopts the other moments'
        scale."""
        zero = torch.zeros((), dtype=torch.float64, device=device)
        return cls(zero + count, zero.expand(channels), zero, zero + SMALLEST)

    @classmethod
    def stack(cls, moments: Sequence["RowMoments"]) -> "RowMoments":
        """Stack one or more along a new first dimension; means are padded with zeros to equal
        width."""
        width = max(one.mean.shape[-1] for one in moments)
        wide = [vars(one.widened(width)).values() for one in moments]
        return cls(*map(torch.stack, zip(*wide, strict=True)))

    @classmethod
    def merge(cls, parts: Sequence["RowMoments"]) -> "RowMoments":
        """The moments of the rows of one or more parts."""
        return parts[0] if len(parts) == 1 else cls.stack(parts).merged()

    def widened(self, channels: int) -> "RowMoments":
        """The same, with columns of zeros added up to a width."""
        lacking = channels - self.mean.shape[-1]
        if not lacking:
            return self
        return replace(self, mean=torch.nn.functional.pad(self.mean, (0, lacking)))

    def merged(self) -> "RowMoments":
        r"""The moments of all rows, merged along the first dimension (batches or processes).

        .. math:: m = \sum_p \frac{N_p}{N} m_p, \quad c = \sum_p c_p + N_p \|m_p - m\|^2

        Chan, Golub & LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample
        Variances*, 1979, here for all parts at once.
        """
        count, scale = self.count.sum(0), self.scale.amax(0).clamp_min(SMALLEST)
        ratio = self.scale / scale
        means = self.mean * ratio.unsqueeze(-1)
        # Differences from the mean of the largest part are exactly zero if all means are equal.
        start = means.take_along_dim(self.count.argmax(0)[None, ..., None], 0)[0]
        share = (self.count / count.clamp_min(1)).unsqueeze(-1)
        shift = (share * (means - start)).sum(0)
        apart = (means - start - shift).square().sum(-1)
        centred = (self.centred * ratio.square() + self.count * apart).sum(0)
        return RowMoments(count, start + shift, centred, scale)

    def side_by_side(self) -> "RowMoments":
        r"""The moments of matrices of the same rows, joined by columns and divided by the root of
        their number.

        .. math:: \Big[ X_1 \; X_2 \; \cdots \; X_P \Big] / \sqrt P

        Its mu and norm are the root mean squares of those of the single matrices. The first
        dimension indexes the matrices, one from each process; all processes have the same nodes.
        """
        scale = self.scale.amax(0).clamp_min(SMALLEST)
        ratio = self.scale / scale
        means = self.mean * ratio.unsqueeze(-1) / len(self.mean) ** 0.5
        centred = (self.centred * ratio.square()).mean(0)
        return RowMoments(self.count.amax(0), torch.cat(means.unbind(0), -1), centred, scale)

    def times(self, factor: float | Tensor) -> "RowMoments":
        """The moments of the rows times a positive factor."""
        return replace(self, scale=self.scale * factor)


def _in_float32(rows: Tensor) -> RowMoments | None:
    """Sum large float32 matrices on a CPU in float32; None if that is no faster or loses digits."""
    if rows.dtype != torch.float32 or not rows.is_cpu or not rows.is_contiguous():
        return None
    count, channels = rows.shape
    if count * channels < FEWEST_NUMBERS or channels < FEWEST_COLUMNS:
        return None
    parts = []
    # Parts of nearly equal size, rather than a short last one.
    for part in rows.tensor_split(-(-count // MOST_ROWS)):
        # Mean and variance of every column in one call.
        mean, variances = torch.batch_norm_update_stats(part, None, None, 0.0)
        variance = sum(variances.tolist())
        if not LOW < variance < HIGH or variance < NEARLY_EQUAL * mean.dot(mean).item():
            return None
        numbers = torch.tensor([len(part), len(part) * variance, 1.0], dtype=torch.float64)
        parts.append(RowMoments(numbers[0], mean.double(), numbers[1], numbers[2]))
    return RowMoments.merge(parts)


def sum_of_squares(x: Float[Tensor, "*_"]) -> Float[Tensor, ""]:
    """The sum of the squares of all entries in float64, to five digits at least for any float32
    entries."""
    if x.is_complex():
        x = torch.view_as_real(x)
    if x.dtype == torch.float32 and x.is_cpu and x.numel():
        total = _by_rows(x)
        if LOW < total.item() < HIGH:
            return total
        largest = x.abs().amax()
        if 0 < largest.item() < torch.inf:
            return _by_rows(x / largest) * largest.double().square()
    return torch.linalg.vector_norm(x, dtype=torch.float64).square()


def _by_rows(x: Tensor) -> Float[Tensor, ""]:
    """Sum squares along rows in float32, and over rows in float64."""
    lengths = torch.linalg.vector_norm(x, dim=-1).flatten().double()
    return lengths.dot(lengths)


def _scale(rows: Tensor) -> Float[Tensor, ""]:
    """A divisor for rows in float64, so that their squares neither vanish nor overflow: a power of
    two, so exact."""
    largest = rows.abs().amax()
    mantissa, _ = torch.frexp(largest)  # 1/2 <= mantissa < 1
    return torch.where(largest > 0, largest / (2 * mantissa), SMALLEST).clamp_min(SMALLEST)


def _sums(
    rows: Tensor, start: Tensor, scale: Tensor
) -> tuple[Float[Tensor, "channels"], Float[Tensor, ""]]:
    """The sum of the rows' differences from one row, and the sum of their squares."""
    apart = rows.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    if rows.dtype == torch.float64:  # else the scale is 1
        apart /= scale
    apart -= start
    flat = apart.view(-1)
    return apart.sum(0), flat.dot(flat)
