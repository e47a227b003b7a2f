"""Jumping knowledge: what the decoder reads of the states of a stack."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Jump: TypeAlias = Literal["last", "max", "cat"]


def jumped_width(jump: Jump, widths: Sequence[int]) -> int:
    """Width of what is read of the outputs of layers of these widths.

    Raises:
        ValueError: The largest entries are taken of states whose widths differ.
    """
    if jump == "max" and len(set(widths)) > 1:
        raise ValueError(f"jump max compares states of one width, and these have {list(widths)}: take cat or last.")
    return sum(widths) if jump == "cat" else widths[-1]


def jumped(jump: Jump, states: Sequence[Float[Tensor, "_ _"]]) -> Float[Tensor, "nodes outputs"]:
    r"""The last state, or every layer's output at the nodes of the last one, largest entries or concatenated.

    .. math:: \max(X^1_i, \dots, X^L_i) \quad \mathrm{or} \quad [X^1_i, \dots, X^L_i]

    Xu et al., *Representation Learning on Graphs with Jumping Knowledge Networks*, ICML 2018.
    """
    if jump == "last":
        return states[-1]
    rows = [state[: len(states[-1])] for state in states]
    return torch.cat(rows, 1) if jump == "cat" else torch.stack(rows).amax(0)
