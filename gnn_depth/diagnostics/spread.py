"""What is kept of the rows of a matrix so that parts of it, in other batches and processes, merge into the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST = torch.finfo(torch.float64).tiny


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Count, mean and centred sum of squares of rows: enough for mu, mergeable in any order.

    .. math:: N, \quad m = \frac1N \sum_i \frac{x_i}{s}, \quad c = \sum_i \Big\| \frac{x_i}{s} - m \Big\|^2

    All in float64, where squares of what float32 and its smaller kin can hold have room: s is 1 for them, and a power
    of two near the largest entry for rows in float64. Fields may have leading dimensions, such as one of layers.

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

        Raises:
            ValueError: It is no matrix.
        """
        if rows.ndim != 2:
            raise ValueError(
                f"a spread is one of the rows of a matrix, and this has shape {tuple(rows.shape)}: "
                "join heads and channels with flatten(1)."
            )
        if not rows.numel():
            return cls.empty(rows.shape[1], rows.device, count=len(rows))
        rows, scale = _scaled(rows.detach())
        # Centred at a row first: in equal rows nothing is left, and in nearly equal ones all digits of what differs.
        start = rows[0].clone()
        rows -= start
        shift = rows.mean(0)
        apart = (rows - shift).flatten()
        return cls(torch.full_like(scale, len(rows)), start + shift, apart.dot(apart), scale)

    @classmethod
    def empty(cls, channels: int, device: torch.device | str | None = None, count: int = 0) -> "Spread":
        """The spread of no rows, or of some that are zero; whatever it is merged with gives the scale."""
        zero = torch.zeros((), dtype=torch.float64, device=device)
        return cls(zero + count, zero.expand(channels), zero, zero + SMALLEST)

    @classmethod
    def stack(cls, spreads: Sequence["Spread"], channels: int | None = None) -> "Spread":
        """Many spreads as one, along a new first dimension; columns of zeros make their widths equal.

        Args:
            spreads: At least one.
            channels: Width of all; by default that of the widest.
        """
        width = channels or max(spread.mean.shape[-1] for spread in spreads)
        means = [torch.nn.functional.pad(s.mean, (0, width - s.mean.shape[-1])) for s in spreads]
        stacked = {f.name: torch.stack([getattr(s, f.name) for s in spreads]) for f in fields(cls) if f.name != "mean"}
        return cls(mean=torch.stack(means), **stacked)

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


def _scaled(rows: Tensor) -> tuple[Float[Tensor, "rows channels"], Float[Tensor, ""]]:
    """New rows in float64 whose squares neither vanish nor overflow, and what the old ones were divided by for that."""
    if rows.dtype != torch.float64:
        return rows.double(), torch.ones((), dtype=torch.float64, device=rows.device)
    largest = rows.abs().amax()
    mantissa, _ = torch.frexp(largest)  # 1/2 <= mantissa < 1
    # A power of two, so that nothing is rounded.
    scale = torch.where(largest > 0, largest / (2 * mantissa), SMALLEST).clamp_min(SMALLEST)
    return rows / scale, scale
