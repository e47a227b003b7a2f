"""What is made of the measurements: paired ratios, and exponents of growth."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.bench.timing import Sample


@dataclass(frozen=True)
class Pair:
    """Two sides over all rounds.

    Attributes:
        peer, ours: Median seconds of a call.
        ratio: Median over the rounds of ours / peer of the same round.
        low, high: The smallest and the largest of those ratios.
        rounds: How many rounds these are.
        noisy: Whether no round was free of other processes, so that the noisy ones had to do.
    """

    peer: float
    ours: float
    ratio: float
    low: float
    high: float
    rounds: int
    noisy: bool


def compare(rounds: Sequence[Mapping[str, Sample]], side: str = "peer") -> Pair:
    """Compare ``ours`` with a peer over the rounds in which all samples are clean, or all rounds if none is so."""
    clean = [one for one in rounds if all(sample.clean for sample in one.values())]
    used = clean or rounds
    peer, ours = ([one[name].seconds for one in used] for name in (side, "ours"))
    ratios = [mine / theirs for mine, theirs in zip(ours, peer, strict=True)]
    median = statistics.median
    return Pair(median(peer), median(ours), median(ratios), min(ratios), max(ratios), len(used), not clean)


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    r"""The b of :math:`t = c \, n^b` that fits best in the logarithms; NaN for fewer than two sizes."""
    if len(sizes) < 2:
        return math.nan
    return statistics.linear_regression([math.log(n) for n in sizes], [math.log(t) for t in times]).slope


def upper(sizes: Sequence[float], decades: float) -> list[int]:
    """Positions of the sizes within so many decades of the largest one."""
    least = max(sizes) / 10**decades * (1 - 1e-6)
    return [position for position, size in enumerate(sizes) if size >= least]
