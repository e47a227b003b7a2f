"""The examples of Tree-NeighborsMatch: which value each leaf has, which leaf the root asks for, who is held out."""

from dataclasses import dataclass
from math import factorial

import torch
from jaxtyping import Int, Int16
from torch import Tensor

from gnn_depth.data.draws import Draws

#: At most so many permutations of the values, and so many examples, whatever the depth.
PERMUTATIONS = 1000
EXAMPLES = 32_000


@dataclass(frozen=True, eq=False)
class TreeExamples:
    r"""Permutations of the values over the leaves, each of them asked for every leaf.

    .. math:: P = \min(1000,\ \lfloor 32000 / 2^r \rfloor,\ 2^r!), \quad \text{examples} = 2^r P

    Alon & Yahav, *On the bottleneck of graph neural networks and its practical implications*, ICLR 2021: 96, 8000,
    16000 and then 32000 examples for r = 2, 3, 4 and more. Example e is permutation ``e // leaves``, asked for leaf
    ``e % leaves``, so that all leaves and all values are asked for equally often, and no two examples are the same.

    Attributes:
        values: The value of each leaf, 1 to leaves.
        train: Examples to train on, of every value equally many.
        held_out: The others.
    """

    values: Int16[Tensor, "permutations leaves"]
    train: Int[Tensor, "trained_on"]
    held_out: Int[Tensor, "held_out"]

    @classmethod
    def draw(cls, depth: int, train_fraction: float, seed: int) -> "TreeExamples":
        """Draw permutations, no two the same, and who is held out.

        Args:
            depth: r, at least 1.
            train_fraction: Part of the examples of each value to train on.
            seed: Which ones; the same on any machine.

        Raises:
            ValueError: The fraction leaves no example of a value on one side.
        """
        leaves, count, trained = 2**depth, num_permutations(depth), num_trained(depth, train_fraction)
        values = _distinct_permutations(Draws(seed, "tree values"), count, leaves)
        of_value = torch.arange(count)[:, None] * leaves + values.argsort(1)  # the example of each permutation
        draws = Draws(seed, "tree split")
        order = torch.stack([of_value[draws.permutation(count), value] for value in range(leaves)], 1)
        train, held_out = order[:trained].flatten(), order[trained:].flatten()
        return cls(values.short() + 1, train.sort().values, held_out.sort().values)

    @property
    def leaves(self) -> int:
        return self.values.shape[1]

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """Everything that tells these examples from others."""
        return self.values, self.train, self.held_out


def num_permutations(depth: int) -> int:
    """Permutations of the values that are drawn for trees of a depth."""
    return min(PERMUTATIONS, EXAMPLES // 2**depth, factorial(2**depth))


def num_trained(depth: int, train_fraction: float) -> int:
    """Of the examples of each value, how many are trained on.

    Raises:
        ValueError: None, or all.
    """
    count = num_permutations(depth)
    trained = round(train_fraction * count)
    if not 0 < trained < count:
        raise ValueError(
            f"train_fraction {train_fraction} of the {count} examples of each value leaves none to "
            f"{'hold out' if trained else 'train on'}: take from {1 / count:.4g} to {1 - 1 / count:.4g}."
        )
    return trained


def _distinct_permutations(draws: Draws, count: int, size: int) -> Int[Tensor, "count size"]:
    """Permutations of 0 to size - 1, no two the same."""
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        found.setdefault(tuple(draws.permutation(size).tolist()))
    return torch.tensor(list(found))
