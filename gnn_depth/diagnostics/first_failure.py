"""The first layer and step at which gradients fail: non-finite, smoothed out or expanded."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import lightning as L
import numpy as np
from jaxtyping import Float
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.diagnostics.callbacks import LayerCallback
from gnn_depth.diagnostics.layer_statistics import MEASURES, Measure
from gnn_depth.diagnostics.log import StepValues
from gnn_depth.diagnostics.loggers import log_findings
from gnn_depth.ranges import Count, Range, in_range

if TYPE_CHECKING:
    import pandas as pd

SMOOTHED, EXPANDED = 0.2, 1e3  # see FirstFailure
# Share of the last layer's gradient; in shallow models it is 0.1 at least.
STALLED = 1e-3
#: What is examined in every layer: the number of rows, mu and norm of its gradients, their distance
#: from the limit of propagation, NaN where that is not known, and the norm of its parameters'
#: gradients.
EXAMINED = (
    Measure("gradient_rows", "", "", attrgetter("count"), log10=False, reads="gradients"),
    MEASURES["gradient_similarity"],
    MEASURES["gradient_norm_hidden"],
    replace(MEASURES["gradient_projection"], tag=""),
    MEASURES["gradient_norm_parameters"],
)

TEXTS = {
    "non_finite": "gradients became non-finite at layer {layer} in step {step}: ||G|| is {value}",
    "smoothed": "gradients smoothed out at layer {layer} in step {step}: only {value:.3g} of their "
    "norm tells nodes apart, beyond what repeated propagation leaves, below {limit:g}",
    "expanded": "gradients expanded at layer {layer} in step {step}: mu is {value:.2g} times that "
    "of the last layer, above {limit:g}",
    "stalled": "layers up to {layer} hardly train in step {step}: the gradient of the parameters "
    "of layer {layer} is {value:.2g} times that of the last layer, below {limit:g}",
}


class FirstFailure(LayerCallback):
    r"""Report the layer and step at which gradients first became non-finite, smoothed out or
    expanded, or reached only the last layers, each once.

    The gradients :math:`G^l` with respect to each layer's input, as in :class:`GradientSimilarity`,
    are examined from the last layer to the first, in the order of the backward pass. The reported
    layer is the first in this order where

    - ``non_finite``: an entry is infinite or NaN;
    - ``smoothed``: the distance from the limit of the layer's repeated propagation over the norm
      (:func:`gnn_depth.diagnostics.measures.projection`, for attention if
      ``gradient_projection`` is among the measures of a ``watch``), or that from equal rows,
      :math:`\mu(G^l) / \|G^l\|`, is below a threshold, but not in the last layer;
    - ``expanded``: :math:`\mu(G^l) / \mu(G^L)` is above a threshold, where L is the last layer
      whose gradients differ;
    - ``stalled``: in at least half of the layers the norm of the parameters' gradients is below a
      thousandth of that in the last layer, which trains while those before it hardly do.

    The growth of a single layer says little: in every good training some layers are a little above
    one. Park & Kim, *Taming Gradient Oversmoothing and Expansion in Graph Neural Networks*, 2024,
    describe smoothing and expansion, *Backward Oversmoothing*, arXiv 2505.16736, the last failure.

    Steps are examined in blocks, and a failure is printed when it is found. The run's
    ``result.json`` has it under ``findings`` with its layer, step, value and threshold, also when
    the training ends with an exception.

    Args:
        layers: Names of the layers in the LightningModule; ``*`` matches any characters but a dot.
            In a module without a ``NodeClassifier``'s stack the default is its outermost
            message-passing layers, ours and PyTorch Geometric's.
        every_n_steps: Steps from one measurement to the next.
        every_n_epochs: Epochs between measurements, instead of steps. If neither is given, every
            step is measured.
        smoothed: Threshold of both shares. No model with 2 to 4 layers fell below the default,
            before training or after it: see the page on misleading measures.
        expanded: Threshold of the growth. At a factor of a thousand, a learning rate that suits the
            last layer is a thousand times too large for another, unless the optimizer scales each
            parameter by its gradients.

    Raises:
        ValueError: A number is out of its range, or both intervals are given.
        MisconfigurationException: No module has such a name, the strategy splits layers over
            processes, or the training has another FirstFailure.
    """

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
        self.measure_log = FailureLog(smoothed, expanded)

    def findings(self) -> dict[str, Any]:
        """The failures found so far, by kind."""
        return self.measure_log.look()

    def frame(self) -> "pd.DataFrame":
        """The failures found so far: a row for each kind, with its layer, step, value and
        threshold."""
        import pandas as pd

        columns = ["layer", "step", "value", "threshold", "text"]
        return pd.DataFrame.from_dict(self.findings(), orient="index", columns=columns)


class FailureLog:
    """Find the first failure of each kind in the given steps; values leave the device once per
    block of steps.

    Args:
        smoothed, expanded: The thresholds of :class:`FirstFailure`.
    """

    measures = EXAMINED

    def __init__(self, smoothed: float, expanded: float) -> None:
        self.smoothed, self.expanded = smoothed, expanded
        self.open(())

    def open(self, layers: Sequence[int]) -> None:
        """Begin a training with layers of these numbers."""
        self.layers = layers
        self.found: dict[str, Any] = {}
        self._examined = False  # True once a step was
        self._new = StepValues(EXAMINED)

    def add(self, trainer: L.Trainer, step: int, values: Float[Tensor, "5 layers"]) -> None:
        """Add the values of :data:`EXAMINED` in a step."""
        if self._new.add(step, values):
            self.look()

    def close(self, trainer: L.Trainer) -> None:
        """Examine the remaining steps, and give the loggers what was found."""
        self.look()
        if trainer.is_global_zero:
            log_findings(trainer.loggers, "FirstFailure", self.found)
            if self._examined and not self.found:
                print("FirstFailure: no failure in the measured steps.", file=sys.stderr)

    def look(self) -> dict[str, Any]:
        """Examine the steps added since the last call, report new failures, and return all."""
        new, self._new = self._new, StepValues(EXAMINED)
        if new.steps:
            self._examined = True
            rows = new.rows(len(self.layers))
            found = first_failures(new.steps, rows, self.layers, self.smoothed, self.expanded)
            for kind, failure in found.items():
                if kind not in self.found:  # each kind is reported once
                    self.found[kind] = failure
                    rank_zero_only(print)(failure["text"], file=sys.stderr)
        return self.found

    def state_dict(self) -> dict[str, Any]:
        """The failures found so far, for a resumed training."""
        return {"found": dict(self.look())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after an earlier part of the training: its failures are not reported again."""
        self.found = dict(state["found"])


def first_failures(
    steps: Sequence[int],
    rows: Float[np.ndarray, "steps 5 layers"],
    layers: Sequence[int],
    smoothed: float = SMOOTHED,
    expanded: float = EXPANDED,
) -> dict[str, Any]:
    """The first step with a failure of each kind, and in it the first layer of the backward pass.

    ``rows`` has the values of :data:`EXAMINED` in each step; ``layers`` are the numbers of the
    layers.
    """
    count, mu, size, distance, of_parameters = rows.swapaxes(0, 1)
    differs = np.isfinite(mu) & (mu > 0)
    # The last layer whose rows differ. If there is none, nothing is expanded.
    last = differs.shape[1] - 1 - differs[:, ::-1].argmax(1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.fmin(mu / size, distance)  # the other, where one is NaN
        growth = mu / np.take_along_axis(mu, last[:, None], 1)
        # A readout over all nodes begins with equal gradients, which no layer has smoothed.
        was_equal = share[:, -1:] < smoothed
        trains = of_parameters / of_parameters[:, -1:]
        stands_still = trains < STALLED
        are_most = stands_still.mean(1, keepdims=True) >= 0.5
        # Of each kind: the threshold, the value at each step and layer, and where it is a failure.
        failures = {
            "non_finite": (None, size, (count > 0) & ~np.isfinite(size)),
            # A single row is always equal to its mean.
            "smoothed": (smoothed, share, (count > 1) & (share < smoothed) & ~was_equal),
            "expanded": (expanded, growth, differs & (growth > expanded)),
            "stalled": (STALLED, trains, stands_still & are_most),
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
