"""Checks shared by the options of several norms."""

import math


def check_positive(norm: str, **options: float) -> None:
    """Check that options are positive.

    Raises:
        ValueError: One is zero, negative, infinite or not a number.
    """
    for name, value in options.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} of {norm} must be positive and finite, not {value}.")
