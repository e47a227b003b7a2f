"""What skip connections share: checks of their options, and the map of a state to the width of what it joins."""

import math

from torch import nn


def check_finite(skip: str, **options: float) -> None:
    """Refuse options that are no numbers.

    Raises:
        ValueError: One is infinite or not a number.
    """
    for name, value in options.items():
        if not math.isfinite(value):
            raise ValueError(f"{name} of skip {skip!r} must be a finite number, not {value}.")


def project(in_channels: int, out_channels: int) -> nn.Module:
    """The identity where the widths are equal, else a linear map without bias."""
    return nn.Identity() if in_channels == out_channels else nn.Linear(in_channels, out_channels, bias=False)
