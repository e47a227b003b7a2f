"""Compare every number that the package shows with the same number computed another way.

``scores`` compares metrics with scikit-learn, ``layers`` measures with autograd in float64. All
inputs are drawn from a seed. tests/data/test_entrances.py compares the entrances of data.
"""

from typing import Any, TypeAlias

import numpy as np

#: A trial's name, and what differs; empty if nothing does.
Trial: TypeAlias = tuple[str, str]


class TrialInput:
    """A trial's random numbers, and the words for what is special about it."""

    def __init__(self, seed: Any) -> None:
        self.random = np.random.default_rng(seed)
        self._said: dict[str, None] = {}

    @property
    def words(self) -> str:
        return ", ".join(self._said) or "plain"

    def say(self, words: str) -> None:
        """Call the trial by these words, too."""
        self._said[words] = None

    def one_of(self, *words: str) -> str:
        """One of several words, by which the trial is called."""
        word = str(self.random.choice(words))
        self.say(word)
        return word

    def chance(self, probability: float, words: str) -> bool:
        """True with a probability; then the trial is called by these words, too."""
        is_so = bool(self.random.random() < probability)
        if is_so:
            self.say(words)
        return is_so
