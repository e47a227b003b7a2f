"""Random numbers that are the same on every machine and in every version, and leave all other
generators alone."""

from zlib import crc32

import numpy as np
import torch
from torch import Tensor


class Draws:
    """Random numbers made from the raw bits of PCG64 by integer and exactly rounded operations
    only.

    NumPy keeps the bits of its bit generators stable across versions, but not its distributions;
    the last bits of PyTorch's normal numbers depend on the vector units of the processor.

    Args:
        seed: The seed.
        stream: The purpose of the numbers. Streams of one seed are independent: a new one leaves
            the others unchanged.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self._bits = np.random.PCG64([seed, crc32(stream.encode())])

    def uniform(self, count: int) -> np.ndarray:
        """Numbers in [0, 1), multiples of 2^-53."""
        # The upper 53 bits, which a float holds exactly.
        return (self._bits.random_raw(count) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: int | np.ndarray, count: int) -> np.ndarray:
        """Integers in [0, high); ``high`` below 2^53, one for all or one for each."""
        return (self.uniform(count) * high).astype(np.int64)

    def weighted(self, ends: np.ndarray, count: int) -> np.ndarray:
        """Indices drawn in proportion to integer weights whose cumulative sums are ``ends``."""
        return np.searchsorted(ends, self.integers(int(ends[-1]), count), side="right")

    def permutation(self, count: int) -> Tensor:
        """The numbers 0 to count - 1 in random order."""
        # Sorting random keys; of equal ones, which hardly occur, the first stays first.
        return torch.from_numpy(np.argsort(self._bits.random_raw(count), kind="stable"))


def random_split(
    y: Tensor, seed: int, train_per_class: int, num_val: int, num_test: int
) -> tuple[Tensor, ...]:
    """Masks of ``train_per_class`` training nodes of each class, then ``num_val`` and ``num_test``
    of the others.

    The caller makes sure that there are enough nodes.
    """
    order = Draws(seed, "split").permutation(len(y))
    masks = torch.zeros(3, len(y), dtype=torch.bool)
    for number in range(int(y.max()) + 1):
        masks[0, order[y[order] == number][:train_per_class]] = True
    rest = order[~masks[0, order]]
    masks[1, rest[:num_val]] = True
    masks[2, rest[num_val : num_val + num_test]] = True
    return masks.unbind()


def fraction_split(
    count: int, seed: int, train: float, val: float, labelled: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Masks of a fraction of the rows to train on, at least one, a fraction to validate on, and the
    rest.

    Rows that are not ``labelled`` are in no mask.
    """
    order = Draws(seed, "split").permutation(count)
    if labelled is not None:  # after the draw: a label more moves few rows to another set
        order = order[labelled[order]]
    first = max(1, round(train * len(order)))
    last = max(first, round((train + val) * len(order)))
    masks = torch.zeros(3, count, dtype=torch.bool)
    for mask, rows in zip(masks, order.tensor_split([first, last]), strict=True):
        mask[rows] = True
    return masks.unbind()
