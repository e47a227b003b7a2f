"""What can go wrong in a deep stack: the words that parts say what they treat with, and that ``probe`` speaks in."""

from typing import Literal, TypeAlias

Ailment: TypeAlias = Literal[
    "non_finite",
    "dying_signal",
    "equal_rows",
    "rank_collapse",
    "exploding_signal",
    "vanishing_gradients",
    "expanding_gradients",
    "smoothed_gradients",
    "unbounded_attention",
    "imbalance",
]

#: How people call each.
TITLES: dict[Ailment, str] = {
    "non_finite": "numbers overflow",
    "dying_signal": "the signal dies",
    "equal_rows": "all nodes become equal",
    "rank_collapse": "all nodes point in one direction",
    "exploding_signal": "the signal explodes",
    "vanishing_gradients": "gradients vanish",
    "expanding_gradients": "gradients expand",
    "smoothed_gradients": "all nodes get the same gradient",
    "unbounded_attention": "attention is not bounded",
    "imbalance": "neurons are out of balance",
}
