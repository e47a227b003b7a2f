"""Helpers of norms that limit the size of a weight matrix."""

import math
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.registry import unknown

Mode: TypeAlias = Literal["cap", "exact"]

#: Matrices smaller than this are left unchanged, because the division could overflow.
TINY = 1e-30


def limit_of(norm: str, num_layers: int, bound: float | None, per_depth: float | None) -> float:
    """The limit c of a norm: a number, or k / L; 1 by default.

    Raises:
        ValueError: Both are given.
    """
    if bound is not None and per_depth is not None:
        raise ValueError(
            f"{norm} takes bound {bound}, or per_depth {per_depth} for a bound of {per_depth} / num_layers: give one."
        )
    if per_depth is not None:
        return per_depth / num_layers
    return 1.0 if bound is None else bound


def check_choice(what: str, value: str, choices: Any) -> None:
    """Check that a value is one of those of a Literal.

    Raises:
        ValueError: It is not among them.
    """
    if value not in get_args(choices):
        raise ValueError(unknown(what, value, get_args(choices)))


def limited(
    weight: Float[Tensor, "outputs inputs"], size: Float[Tensor, ""], limit: float, mode: Mode
) -> Float[Tensor, "outputs inputs"]:
    """Scale a matrix of this size down to the limit, or in mode ``exact`` to the limit; zero stays zero."""
    stretch = size.clamp_min(limit) / limit if mode == "cap" else torch.where(size > TINY, size / limit, 1.0)
    return (weight * stretch.reciprocal()).to(weight.dtype)


def describe(bound: float, mode: Mode) -> str:
    """The text of a norm with a limit in ``print(model)``."""
    return f"bound={math.floor(bound * 1e6 + 0.5) / 1e6:g}, mode={mode}"
