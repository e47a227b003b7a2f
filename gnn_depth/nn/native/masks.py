"""Which numbers a dropout drops, as the kernels read it."""

import ctypes
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

LEVELS = 2**31


class _Dropout(ctypes.Structure):
    _fields_ = [
        ("seed", ctypes.c_void_p),
        ("threshold", ctypes.c_int32),
        ("scale", ctypes.c_double),
    ]


@dataclass(eq=False)
class Mask:
    """Which numbers a dropout drops.

    Args:
        seed: The two numbers that determine the mask; None for no dropout.
        p: Probability of dropping a number.
    """

    seed: Tensor | None = None
    p: float = 0.0

    @property
    def threshold(self) -> int:
        """Half a position's hash, from -2^30 to 2^30, is below it with probability p."""
        return round(self.p * LEVELS) - LEVELS // 2

    @property
    def scale(self) -> float:
        """The factor of the numbers that are kept; for p = 1 there are none."""
        if self.p == 1:
            return 0.0
        return 1 / (1 - self.p)

    @cached_property
    def _structure(self) -> _Dropout:
        address = None if self.seed is None else self.seed.data_ptr()
        return _Dropout(address, self.threshold, self.scale)

    @property
    def _as_parameter_(self) -> int:
        """Address of the structure that the C functions read, as ctypes asks for it."""
        return ctypes.addressof(self._structure)
