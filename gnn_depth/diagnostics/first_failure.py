"""The first layer and step at which gradients fail: non-finite, smoothed out or expanded."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.diagnostics.callbacks import LayerCallback
from gnn_depth.diagnostics.log import ROWS, SECONDS
from gnn_depth.diagnostics.loggers import log_findings
from gnn_depth.diagnostics.measures import norm, similarity
from gnn_depth.diagnostics.moments import RowMoments
from gnn_depth.ranges import Count, Range, in_range

if TYPE_CHECKING:
    import pandas as pd

SMOOTHED, EXPANDED = 1e-6, 1e3  # see FirstFailure

TEXTS = {
    "non_finite": "gradients became non-finite at layer {layer} in step {step}: ||G|| is {value}",
    "smoothed": "gradients smoothed out at layer {layer} in step {step}: mu/||G|| is {value:.2g}, "
    "below {limit:g}",
    "expanded": "gradients expanded at layer {layer} in step {step}: mu is {value:.2g} times that "
    "of the last layer, above {limit:g}",
}


class FirstFailure(LayerCallback):
    r"""Report the layer and step at which gradients first became non-finite, smoothed out or
    expanded, each once.

    The gradients :math:`G^l` with respect to each layer's input, as in :class:`GradientSimilarity`,
    are examined from the last layer to the first, in the order of the backward pass. The reported
    layer is the first in this order where

    - ``non_finite``: an entry is infinite or NaN;
    - ``smoothed``: :math:`\mu(G^l) / \|G^l\|` is below a threshold: the rows are nearly equal;
    - ``expanded``: :math:`\mu(G^l) / \mu(G^L)` is above a threshold, where L is the last layer
      whose gradients differ.

    The growth of a single layer says little: in every good training some layers are a little above
    one. Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024,
    describe both failures.

    Steps are examined in blocks, and a failure is printed when it is found. The run's
    ``result.json`` has it under ``findings`` with its layer, step, value and threshold, also when
    the training ends with an exception.

    Args:
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs between measurements, instead of steps. If neither is given, every
            step is measured.
        smoothed: Threshold of mu / norm. Rows that agree to one part in a million differ by about
            eight units in the last place of float32, where rounding errors decide.
        expanded: Threshold of the growth. At a factor of a thousand, a learning rate that suits the
            last layer is a thousand times too large for another, unless the optimizer scales each
            parameter by its gradients.

    Raises:
        ValueError: A number is out of its range, or both intervals are given.
        MisconfigurationException: No module has such a name, the strategy splits layers over
            processes, or the training has another FirstFailure.
    """

    measures = ("gradient_norm_hidden",)

    @in_range
    def __init__(
        self,
        layers: str = "stack.blocks.*.layer",
        every_n_steps: Count | None = None,
        every_n_epochs: Count | None = None,
        smoothed: Annotated[float, Range(0, 1, above=True, below=True)] = SMOOTHED,
        expanded: Annotated[float, Range(1, above=True)] = EXPANDED,
    ) -> None:
        self.smoothed = smoothed
        self.expanded = expanded
        super().__init__(layers, every_n_steps, every_n_epochs)

    def _make_log(self) -> "FailureLog":
        return FailureLog(self.smoothed, self.expanded)

    def findings(self) -> dict[str, Any]:
        """The failures found so far, by kind."""
        self.measure_log.look()
        return self.measure_log.found

    def frame(self) -> "pd.DataFrame":
        """The failures found so far: a row for each kind, and columns ``layer``, ``step``,
        ``value``, ``threshold``."""
        import pandas as pd

        found = self.findings()
        kinds = pd.Index(found, name="failure")
        return pd.DataFrame(found.values(), kinds, ["layer", "step", "value", "threshold"])

    # The moments of the gradients tell more than the measure that asks for them.
    def _rows(
        self, values: dict[str, Tensor], gradients: RowMoments | None, device: torch.device
    ) -> Float[Tensor, "3 layers"]:
        assert gradients is not None
        return needed(gradients)


class FailureLog:
    """Finds the first failure of each kind in the steps that it is given; the host waits for the
    device once a block.

    Args:
        smoothed, expanded: The thresholds of :class:`FirstFailure`.
    """

    def __init__(self, smoothed: float, expanded: float) -> None:
        self.smoothed, self.expanded = smoothed, expanded
        self.open(())

    def open(self, layers: Sequence[int]) -> None:
        """Begin a training with layers of these numbers."""
        self.layers = layers
        self.found: dict[str, Any] = {}
        self._new: list[tuple[int, Tensor]] = []
        self._looked = time.monotonic()

    def add(self, trainer: L.Trainer, step: int, values: Float[Tensor, "3 layers"]) -> None:
        """Add the row counts, mu and norms of a step."""
        self._new.append((step, values))
        if len(self._new) > ROWS or time.monotonic() - self._looked > SECONDS:
            self.look()

    def close(self, trainer: L.Trainer) -> None:
        """Examine the remaining steps, and give the loggers what was found."""
        self.look()
        if trainer.is_global_zero:
            log_findings(trainer.loggers, "FirstFailure", self.found)

    def look(self) -> None:
        """Examine the steps added since the last call, and report new failures."""
        new, self._new = self._new, []
        self._looked = time.monotonic()
        if not new or len(self.found) == len(TEXTS):  # each kind is reported once
            return
        rows = torch.stack([values for _, values in new]).cpu().numpy()
        steps = [step for step, _ in new]
        found = first_failures(steps, rows, self.layers, self.smoothed, self.expanded)
        for kind, failure in found.items():
            if kind not in self.found:
                self.found[kind] = failure
                rank_zero_only(print)(failure["text"], file=sys.stderr)

    def state_dict(self) -> dict[str, Any]:
        """The failures found so far, for a resumed training."""
        self.look()
        return {"found": dict(self.found)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after an earlier part of the training: its failures are not reported again."""
        self.found = dict(state["found"])


def needed(gradients: RowMoments) -> Float[Tensor, "3 layers"]:
    """The values to examine in one step: the number of rows, mu and norm of each layer's
    gradients."""
    return torch.stack([gradients.count, similarity(gradients), norm(gradients)])


def first_failures(
    steps: Sequence[int],
    rows: Float[np.ndarray, "steps 3 layers"],
    layers: Sequence[int],
    smoothed: float = SMOOTHED,
    expanded: float = EXPANDED,
) -> dict[str, Any]:
    """The first step with a failure of each kind, and in it the first layer of the backward pass.

    ``rows`` has the output of :func:`needed` for each step; ``layers`` are the numbers of the
    layers.
    """
    count, mu, size = rows[:, 0], rows[:, 1], rows[:, 2]
    differs = np.isfinite(mu) & (mu > 0)
    # The last layer whose rows differ. If there is none, nothing is expanded.
    last = differs.shape[1] - 1 - differs[:, ::-1].argmax(1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = mu / size
        growth = mu / np.take_along_axis(mu, last[:, None], 1)
        # Of each kind: the threshold, the value at each step and layer, and where it is a failure.
        failures = {
            "non_finite": (None, size, (count > 0) & ~np.isfinite(size)),
            # A single row is always equal to its mean.
            "smoothed": (smoothed, share, (count > 1) & (share < smoothed)),
            "expanded": (expanded, growth, differs & (growth > expanded)),
        }
    found = {}
    for kind, (limit, values, is_failure) in failures.items():
        if not is_failure.any():
            continue
        row = int(is_failure.any(1).argmax())  # argmax finds the first step
        place = int(is_failure[row].nonzero()[0][-1])  # the first in the backward pass
        where = {"layer": layers[place], "step": steps[row], "value": float(values[row, place])}
        text = TEXTS[kind].format(**where, limit=limit)
        found[kind] = {**where, "threshold": limit, "text": text}
    return found
