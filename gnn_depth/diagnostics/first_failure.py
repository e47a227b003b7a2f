"""Where and when gradients first fail, in words."""

import time
from collections.abc import Sequence
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor, nn
from torch.optim import Optimizer

from gnn_depth.diagnostics.every_layer import EveryLayer
from gnn_depth.diagnostics.measures import norm, similarity
from gnn_depth.diagnostics.spreads import Spreads, spread_of
from gnn_depth.diagnostics.watch import InputGradients

SMOOTHED, EXPANDED = 1e-6, 1e3  # see FirstFailure
ROWS, SECONDS = 50, 2.0  # of steps that are looked through at once, as those that a sink hands on


class FirstFailure(EveryLayer):
    r"""Say at which layer and step gradients first became non-finite, smoothed out or expanded: each once.

    Looked at are the gradients :math:`G^l` of what enters each layer, as :class:`GradientSimilarity` has them, from the
    last layer to the first, as they are made; the layer that is named is the first on this way where

    - ``non_finite``: an entry is infinite or NaN;
    - ``smoothed``: :math:`\mu(G^l) / \|G^l\|` is below a threshold, the rows are equal up to that;
    - ``expanded``: :math:`\mu(G^l) / \mu(G^L)` is above a threshold, where L is the last layer whose gradients differ.

    The growth of a single layer says little: in every training that goes well some layers are a little above one. Park
    & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024, has both failures.

    Each is told when it is found, steps being looked through in blocks, and is in the run's ``result.json`` under
    ``findings`` with its layer, step, value and threshold, also when the training ends with an exception.

    Args:
        layers: Names of the layers in the LightningModule, with ``*`` in place of what differs.
        every_n_steps: Steps from one look to the next.
        every_n_epochs: Epochs from one to the next, instead; with neither, every step.
        smoothed: Share of the norm: rows equal to one part in a million differ by some eight units of float32's last
            digit, in which rounding decides.
        expanded: Factor: at a thousand a rate that suits the last layer is a thousand times too large for another, with
            any optimizer that does not scale each parameter by its gradients.

    Raises:
        ValueError: A cadence or a threshold is out of its range, or two cadences are given.
        MisconfigurationException: No module has such a name, the strategy has no whole layers in one place, or the
            training has another FirstFailure.
    """

    _inputs: InputGradients

    def __init__(
        self,
        layers: str = "stack.layers.*",
        every_n_steps: int | None = None,
        every_n_epochs: int | None = None,
        smoothed: float = SMOOTHED,
        expanded: float = EXPANDED,
    ) -> None:
        if not 0 < smoothed < 1:
            raise ValueError(f"smoothed of FirstFailure is a share of the norm, between 0 and 1, not {smoothed}.")
        if not 1 < expanded < float("inf"):
            raise ValueError(f"expanded of FirstFailure is a factor above 1, and finite, not {expanded}.")
        self.smoothed, self.expanded = smoothed, expanded
        self._spreads, self._found = Spreads(), Failures(smoothed, expanded)
        super().__init__(self._found, layers, every_n_steps, every_n_epochs)

    def findings(self) -> dict[str, Any]:
        """What was found so far, by kind."""
        self._found.look()
        return self._found.found

    def _watch(self, modules: Sequence[nn.Module]) -> InputGradients:
        return InputGradients(modules, spread_of)

    def _measure(
        self, trainer: L.Trainer, pl_module: L.LightningModule, optimizer: Optimizer
    ) -> Float[Tensor, "3 layers"]:
        spread = self._spreads.of_gradients(trainer, self._inputs)
        return torch.stack([spread.count, similarity(spread), norm(spread)])


class Failures:
    """The first of each kind in the steps that come in; the host waits for the device once a block.

    Args:
        smoothed, expanded: The thresholds of :class:`FirstFailure`.
    """

    def __init__(self, smoothed: float, expanded: float) -> None:
        self.limits = {"non_finite": None, "smoothed": smoothed, "expanded": expanded}
        self.found: dict[str, Any] = {}
        self._layers: Sequence[int] = ()
        self._new: list[tuple[int, Tensor]] = []
        self._looked = time.monotonic()

    def open(self, layers: Sequence[int]) -> None:
        """Begin with a training, of layers of these numbers."""
        self._layers, self.found, self._new = layers, {}, []
        self._looked = time.monotonic()

    def add(self, trainer: L.Trainer, step: int, values: Float[Tensor, "3 layers"], keep: bool = True) -> None:
        """Take counts of rows, mu and norms of a step. It counts whether it is kept or not: it was made."""
        self._new.append((step, values))
        if len(self._new) > ROWS or time.monotonic() - self._looked > SECONDS:
            self.look()

    def close(self, trainer: L.Trainer) -> None:
        """Look through what is left."""
        self.look()

    def look(self) -> None:
        """Look through what has come in, and tell what is found."""
        new, self._new, self._looked = self._new, [], time.monotonic()
        if not new or len(self.found) == len(self.limits):
            return
        rows = torch.stack([values for _, values in new]).cpu().numpy()
        for kind, (value, there) in signs(rows, self.limits["smoothed"], self.limits["expanded"]).items():
            if kind not in self.found and there.any():
                row = int(there.any(1).argmax())
                place = int(there[row].nonzero()[0][-1])
                self._tell(kind, self._layers[place], new[row][0], float(value[row, place]))

    def _tell(self, kind: str, layer: int, step: int, value: float) -> None:
        limit = self.limits[kind]
        text = WORDS[kind].format(layer=layer, step=step, value=value, limit=limit)
        self.found[kind] = {"layer": layer, "step": step, "value": value, "threshold": limit, "text": text}
        rank_zero_info(text)

    def state_dict(self) -> dict[str, Any]:
        """What was found so far, for a training that goes on."""
        self.look()
        return {"found": dict(self.found)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after an earlier part of the training: what it found is not looked for again."""
        self.found = dict(state["found"])


WORDS = {
    "non_finite": "gradients became non-finite at layer {layer} in step {step}: ||G|| is {value}",
    "smoothed": "gradients smoothed out at layer {layer} in step {step}: mu/||G|| is {value:.2g}, below {limit:g}",
    "expanded": "gradients expanded at layer {layer} in step {step}: mu is {value:.2g} times that of the last layer, "
    "above {limit:g}",
}


def signs(
    rows: Float[np.ndarray, "steps 3 layers"], smoothed: float | None, expanded: float | None
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By kind of failure, the value of each step and layer that shows it, and whether it does.

    Args:
        rows: Counts of rows, mu and norms; a layer without rows has no gradients.
        smoothed, expanded: The thresholds of :class:`FirstFailure`.
    """
    count, mu, size = rows[:, 0], rows[:, 1], rows[:, 2]
    differs = np.isfinite(mu) & (mu > 0)
    last = differs.shape[1] - 1 - differs[:, ::-1].argmax(1)  # where none differs, no growth is above anything
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = mu / size
        growth = mu / np.take_along_axis(mu, last[:, None], 1)
        return {
            "non_finite": (size, (count > 0) & ~np.isfinite(size)),
            "smoothed": (share, (count > 1) & (share < smoothed)),
            "expanded": (growth, differs & (growth > expanded)),
        }
