"""What is kept of the rows of a matrix so that parts of it, in other batches and processes, merge into the whole."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.narrow import Moments, moments

SMALLEST = torch.finfo(torch.float64).tiny
CHUNK = 1 << 18  # numbers at once, 2 MiB: of fewer, to begin with the next part would cost more than the cache saves
_kept = threading.local()


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Count, mean and centred sum of squares of rows: enough for mu, mergeable in any order.

    .. math:: N, \quad m = \frac1N \sum_i \frac{x_i}{s}, \quad c = \sum_i \Big\| \frac{x_i}{s} - m \Big\|^2

    All kept in float64, where squares of what float32 and its smaller kin can hold have room: s is 1 for them, and a
    power of two near the largest entry for rows in float64. Fields may have leading dimensions, such as one of layers.

    Attributes:
        count: N.
        mean: m.
        centred: c; NaN where an entry of the rows is infinite or NaN, and so stays what it is merged with.
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

    @classmethod
    def of(cls, rows: Float[Tensor, "rows channels"]) -> "Spread":
        """The spread of the rows of a matrix of any floating-point type, on its device, which is not waited for.

        Large matrices of float32 on a CPU, unless their rows are nearly equal, are counted in float32, to five digits.

        Raises:
            ValueError: It is no matrix.
        """
        if rows.ndim != 2:
            raise ValueError(
                f"a spread is one of the rows of a matrix, and this has shape {tuple(rows.shape)}: "
                "join heads and channels with flatten(1)."
            )
        found = counted(rows.detach())
        return found if isinstance(found, Spread) else cls.of_moments(found).merged()

    @classmethod
    def of_moments(cls, moments: Sequence[Moments]) -> "Spread":
        """The spreads of what was counted in float32, along a new first dimension; zeros make their widths equal."""
        width = max(len(found.mean) for found in moments)
        means = [_widened(torch.frombuffer(found.mean, dtype=torch.float64), width) for found in moments]
        return replace(cls.of_lengths(moments), mean=torch.stack(means))

    @classmethod
    def of_lengths(cls, moments: Sequence[Moments]) -> "Spread":
        """The same with the length of each mean for a mean: enough, and sooner made, where no parts are merged."""
        numbers = [(found.rows, found.length, found.variance) for found in moments]
        count, length, variance = torch.tensor(numbers, dtype=torch.float64).unbind(1)
        return cls(count, length[:, None], count * variance, torch.ones_like(count))

    @classmethod
    def in_float64(cls, rows: Float[Tensor, "rows channels"]) -> "Spread":
        """The spread of rows, summed in float64."""
        if not rows.numel():
            return cls.empty(rows.shape[1], rows.device, count=len(rows))
        wide = rows.dtype == torch.float64
        scale = _scale(rows) if wide else _number(1.0, rows.device)
        # Seen from a row: in equal rows nothing is left, and in nearly equal ones all digits of what differs. That row
        # is in the sum too, so of N rows the difference below takes no more digits than N has.
        start = rows[0] / scale if wide else rows[0].double()
        (total, square), *more = [_sums(part, start, scale if wide else None) for part in _parts(rows)]
        for others, squares in more:
            total, square = total + others, square + squares
        shift = total / len(rows)
        return cls(_number(float(len(rows)), rows.device), start + shift, square - shift.dot(total), scale)

    @classmethod
    def empty(cls, channels: int, device: torch.device | str | None = None, count: int = 0) -> "Spread":
        """The spread of no rows, or of some that are zero; whatever it is merged with gives the scale."""
        zero = torch.zeros((), dtype=torch.float64, device=device)
        return cls(zero + count, zero.expand(channels), zero, zero + SMALLEST)

    @classmethod
    def stack(cls, spreads: Sequence["Spread"]) -> "Spread":
        """Many spreads, of which there is at least one, along a new first dimension; zeros make their widths equal."""
        stacked = {f.name: torch.stack([getattr(s, f.name) for s in spreads]) for f in fields(cls) if f.name != "mean"}
        width = max(spread.mean.shape[-1] for spread in spreads)
        return cls(mean=torch.stack([_widened(spread.mean, width) for spread in spreads]), **stacked)

    def widened(self, channels: int) -> "Spread":
        """The same with columns of zeros, until there are so many."""
        return replace(self, mean=_widened(self.mean, channels))

    def unbind(self) -> list["Spread"]:
        """Each of those along the first dimension: what :meth:`stack` has made one of."""
        return [Spread(*parts) for parts in zip(*(getattr(self, f.name).unbind() for f in fields(self)), strict=True)]

    def merge(self, other: "Spread") -> "Spread":
        """The spread of the rows of both."""
        return Spread.stack([self, other]).merged()

    def merged(self) -> "Spread":
        r"""The spread of all rows along the first dimension, which are those of batches or of processes.

        .. math:: m = \sum_p \frac{N_p}{N} m_p, \quad c = \sum_p c_p + N_p \|m_p - m\|^2

        Chan, Golub & LeVeque, *Updating Formulae and a Pairwise Algorithm for Computing Sample Variances*, 1979, with
        all parts at once.
        """
        count, scale = self.count.sum(0), self.scale.amax(0).clamp_min(SMALLEST)
        ratio = self.scale / scale
        means = self.mean * ratio.unsqueeze(-1)
        # Seen from the mean of the largest part: where all means are equal nothing is left, whatever their shares are.
        start = means.take_along_dim(self.count.argmax(0)[None, ..., None], 0)[0]
        share = (self.count / count.clamp_min(1)).unsqueeze(-1)
        shift = (share * (means - start)).sum(0)
        apart = (means - start - shift).square().sum(-1)
        centred = (self.centred * ratio.square() + self.count * apart).sum(0)
        return Spread(count, start + shift, centred, scale)

    def abreast(self) -> "Spread":
        r"""The spread of matrices of the same rows, side by side and divided by the root of their number.

        .. math:: \Big[ X_1 \; X_2 \; \cdots \; X_P \Big] / \sqrt P

        Its mu and norm are the root mean squares of theirs, so of equal matrices they are those of each. The matrices
        are along the first dimension: those of processes that all have the same nodes.
        """
        scale = self.scale.amax(0).clamp_min(SMALLEST)
        ratio = self.scale / scale
        means = self.mean * ratio.unsqueeze(-1) / len(self.mean) ** 0.5
        centred = (self.centred * ratio.square()).mean(0)
        return Spread(self.count.amax(0), torch.cat(means.unbind(0), -1), centred, scale)

    def times(self, factor: float | Tensor) -> "Spread":
        """The spread of the rows times a positive factor: one over the scale of a loss, or over the processes."""
        return Spread(self.count, self.mean, self.centred, self.scale * factor)

    def pack(self) -> Float[Tensor, "size"]:
        """One flat tensor with everything, for processes to exchange; :meth:`unpack` reads it."""
        numbers = torch.stack([self.count, self.centred, self.scale], -1)
        return torch.cat([numbers, self.mean], -1).flatten()

    @classmethod
    def unpack(cls, packed: Float[Tensor, "*processes size"], layers: int) -> "Spread":
        """What :meth:`pack` made of the stacked spreads of so many layers, in one process or stacked for several.

        ``Spread.unpack(gathered, layers).merged()`` is the spread of each layer over all processes.
        """
        table = packed.reshape(*packed.shape[:-1], layers, -1)
        (count, centred, scale), mean = table[..., :3].unbind(-1), table[..., 3:]
        return cls(count, mean, centred, scale)


#: What is enough to know a spread: itself, or what :meth:`Spread.of_moments` makes spreads of.
Counted: TypeAlias = Spread | list[Moments]


def counted(rows: Float[Tensor, "rows channels"]) -> Counted:
    """What is enough to know the spread of rows.

    To make those of all layers at once costs a fraction of what it costs to make each in turn.
    """
    found = moments(rows)
    return Spread.in_float64(rows) if found is None else found


def _widened(mean: Tensor, channels: int) -> Float[Tensor, "*layers channels"]:
    lacking = channels - mean.shape[-1]
    return torch.nn.functional.pad(mean, (0, lacking)) if lacking else mean


def _scale(rows: Tensor) -> Float[Tensor, ""]:
    """What rows in float64 are divided by, so that their squares neither vanish nor overflow."""
    largest = rows.abs().amax()
    mantissa, _ = torch.frexp(largest)  # 1/2 <= mantissa < 1
    # A power of two, so that nothing is rounded.
    return torch.where(largest > 0, largest / (2 * mantissa), SMALLEST).clamp_min(SMALLEST)


@lru_cache(maxsize=64)
def _number(value: float, device: torch.device) -> Float[Tensor, ""]:
    """A number on a device: the same tensor each time, as nothing writes to it."""
    with torch.inference_mode(False):  # what is made in it cannot be computed with later
        return torch.full((), value, dtype=torch.float64, device=device)


def _parts(rows: Tensor) -> Sequence[Tensor]:
    """Rows that are looked at together: on CPU as many as the workspace has room for."""
    if rows.device.type != "cpu" or rows.numel() <= CHUNK:
        return (rows,)
    return torch.split(rows, max(CHUNK // rows.shape[1], 1))


def _sums(rows: Tensor, start: Tensor, scale: Tensor | None) -> tuple[Float[Tensor, "channels"], Float[Tensor, ""]]:
    """The sum of rows seen from one, and of their squares."""
    apart = _workspace(rows).copy_(rows)
    if scale is not None:
        apart /= scale
    apart -= start
    flat = apart.view(-1)
    return apart.sum(0), flat.dot(flat)


def _workspace(rows: Tensor) -> Tensor:
    """Room for rows in float64. On CPU the same each time: new pages cost several times what is counted in them."""
    if rows.device.type != "cpu" or rows.numel() > CHUNK:
        return torch.empty_like(rows, dtype=torch.float64, memory_format=torch.contiguous_format)
    if not hasattr(_kept, "room"):
        with torch.inference_mode(False):  # what is made in it cannot be written to later
            _kept.room = torch.empty(CHUNK, dtype=torch.float64)
    room: Tensor = _kept.room
    return room[: rows.numel()].view(rows.shape)
