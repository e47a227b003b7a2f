"""How many parameters a training has changed."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class Change:
    """Keeps parameters as they were, to count those that are another number now.

    They are kept beside the parameters, on the same device, and in checkpoints, so that a resumed training counts from
    where the first one began.
    """

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Forget what was kept."""
        self._sets: list[Sequence[Tensor]] = []
        self._before: list[Tensor] | None = None

    def start(self, sets: Sequence[Sequence[Tensor]]) -> None:
        """Keep the parameters as they are now, where an earlier part of the training has not.

        Args:
            sets: Parameters that are counted together.
        """
        self._sets = list(sets)
        parameters = self._parameters()
        if self._before is None:
            self._before = [parameter.detach().clone() for parameter in parameters]
        self._before = [old.to(new.device) for old, new in zip(self._before, parameters, strict=True)]

    def fractions(self, epsilon: float) -> list[float | None]:
        r"""The fraction of each set with :math:`|\theta - \theta_0| > \epsilon |\theta_0|`; None where a set is empty.

        Args:
            epsilon: The least relative change that counts. Of parameters that were zero any counts.
        """
        if self._before is None:
            return []
        before = dict(zip(map(id, self._parameters()), self._before, strict=True))
        with torch.no_grad():
            # "Not within" counts what is no number any more.
            moved = {p: ~((p - before[id(p)]).abs() <= epsilon * before[id(p)].abs()) for p in self._parameters()}
        counts = [(sum(int(moved[p].sum()) for p in one), sum(p.numel() for p in one)) for one in self._sets]
        return [count / total if total else None for count, total in counts]

    def state_dict(self) -> dict[str, Any]:
        """The parameters as they were."""
        return {"before": self._before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Count from where an earlier part of the training began."""
        self._before = state["before"]

    def _parameters(self) -> list[Tensor]:
        return list({id(p): p for one in self._sets for p in one}.values())
