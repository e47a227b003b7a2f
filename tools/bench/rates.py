"""What this machine can do: seconds of dense products, and bytes a second of copies."""

import time
from collections.abc import Callable
from functools import cache

import torch

from gnn_depth.nn.functional import onednn
from tools.bench.timing import TRIES, Patience, watch

MEGABYTE = 2**20
LADDER = tuple(MEGABYTE * 2**rung for rung in range(9))  # 1 to 256 MB
ENOUGH = 0.05  # seconds of trying


def best_seconds(call: Callable[[], object], patience: Patience) -> float:
    """The shortest of the calls that fit into a moment in which the machine does nothing else."""
    taken: list[float] = []

    def moment() -> None:
        begin = time.perf_counter()
        while time.perf_counter() - begin < ENOUGH or len(taken) < 3:
            taken.append(_seconds(call))

    call()
    for _ in range(TRIES):
        patience.wait()
        if watch(moment).clean:
            break
    return min(taken)


def _seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


class Rates:
    """Measured rates; each is measured once."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience

    @cache  # noqa: B019  (one object a process)
    def product(self, rows: int, inner: int, columns: int) -> float:
        """Seconds of a (rows x inner) by (inner x columns) product in float32, by the faster of MKL
        and oneDNN."""
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        out = torch.empty(rows, columns)
        seconds = best_seconds(lambda: torch.mm(left, right, out=out), self.patience)
        if not torch.backends.mkldnn.is_available():
            return seconds
        return min(seconds, best_seconds(lambda: onednn.multiply(left, right.t()), self.patience))

    def copy(self, footprint: int) -> float:
        """Bytes read and written a second by a copy whose source and target are so large together.

        The best of all sizes as large or larger: small copies suffer from the call itself, and more
        bytes are never truly faster.
        """
        return max(
            [rate for size, rate in self._copies().items() if size >= footprint]
            or [self._copies()[LADDER[-1]]]
        )

    @cache  # noqa: B019
    def _copies(self) -> dict[int, float]:
        return {size: size / best_seconds(_copying(size), self.patience) for size in LADDER}


def _copying(size: int) -> Callable[[], object]:
    source = torch.ones(size // 2, dtype=torch.uint8)
    target = torch.zeros_like(source)
    return lambda: target.copy_(source)
