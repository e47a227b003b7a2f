"""Which numbers a dropout drops, as the kernels read it."""

import ctypes
from functools import cached_property

from torch import Tensor


class _Dropout(ctypes.Structure):
    _fields_ = [
        ("seed", ctypes.c_void_p),
        ("threshold", ctypes.c_int32),
        ("scale", ctypes.c_double),
    ]


class Mask:
    """Which numbers a dropout drops.

    Args:
        seed: The two numbers that determine the mask; None for no dropout.
        p: Probability of dropping a number.
        threshold: A position is kept if its hash is not below this number.
    """

    def __init__(self, seed: Tensor | None, p: float, threshold: int) -> None:
        self.seed = seed
        self.p = p
        self.threshold = threshold

    @cached_property
    def _structure(self) -> _Dropout:
        if self.seed is None:
            return _Dropout(None, 0, 0.0)
        return _Dropout(self.seed.data_ptr(), self.threshold, 1 / (1 - self.p))

    @property
    def address(self) -> int:
        """Address of the structure that the C functions read."""
        return ctypes.addressof(self._structure)


NO_DROPOUT = Mask(None, 0.0, 0)
