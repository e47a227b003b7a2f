"""The measure log: writes measured values as curves to the loggers and as arrays to the run's
folder."""

import time
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.loggers import log_curves, log_heat_maps
from gnn_depth.measurements import MeasureValues, save_values

ROWS, SECONDS = 50, 2.0  # steps, or time, after which a block moves to the host
SAVE_SECONDS = 30.0  # between two writes of the files
SAVE_SHARE = 0.02  # the share of time that writing may take
GROWTH = 1.25  # growth in steps from one picture to the next: each stays in the event file


class StepValues:
    """The values of some measures by step, on their device until the host asks for them: it waits
    once a block."""

    def __init__(
        self, measures: Sequence[Measure], steps: Iterable[int] = (), rows: Iterable[Any] = ()
    ) -> None:
        self.measures = measures
        self.steps = list(steps)
        self._rows: list[np.ndarray] = list(rows)
        self._new: list[Tensor] = []  # not on the host yet
        self._since = time.monotonic()

    def add(self, step: int, values: Float[Tensor, "measures layers *neurons"]) -> bool:
        """Add the values of a step, not their logarithms; True if a block is full."""
        self.steps.append(step)
        self._new.append(values)
        return len(self._new) > ROWS or time.monotonic() - self._since > SECONDS

    def rows(
        self, layers: int, first: int = 0
    ) -> Float[np.ndarray, "steps measures layers *neurons"]:
        """The values of all steps from a place on; NaN where a step has fewer layers."""
        new: Any = self._new
        if len({row.shape for row in new}) == 1:
            new = torch.stack(new).cpu()  # the one wait for the device
        self._rows += [row.cpu().numpy() for row in new]
        self._new, self._since = [], time.monotonic()
        chosen = self._rows[first:]
        if not chosen:
            return np.empty((0, len(self.measures), layers))
        shape = (len(chosen), len(self.measures), layers, *chosen[0].shape[2:])
        whole = np.full(shape, np.nan, dtype=chosen[0].dtype)
        for place, row in enumerate(chosen):
            whole[place, :, : row.shape[1]] = row
        return whole

    def measurements(self, layers: np.ndarray, first: int = 0) -> list[MeasureValues]:
        """The values of each measure in all steps from a place on, in layers of these numbers."""
        rows, steps = self.rows(len(layers), first), np.array(self.steps[first:], dtype=int)
        return [
            measure.values_in(steps, rows[:, place], layers)
            for place, measure in enumerate(self.measures)
        ]


class MeasureLog:
    """Passes measured values on to loggers and files, in blocks.

    Loggers get the values or their logarithms as ``TAG/layer_007``; if there are more than 32
    layers, 16 are shown. As a summary over the layers they get ``TAG/first``, ``middle``, ``last``,
    ``min`` and ``max``. A :class:`CSVLogger` gets nothing, because each curve would be a column of
    its table. Values that are not finite are left out of the curves. TensorBoard, W&B and MLflow
    also get a heat map of each measure, and TensorBoard a page with the five summary curves of
    every measure. Of a measure without a value in most layers TensorBoard gets one line of text.
    The full arrays are saved as files in the folder of the run or, without one, of a
    logger; if neither has a folder, no files are written. Files and heat maps are written at most
    twice a minute, and at the end.

    Args:
        measures: What is measured.
    """

    def __init__(self, measures: Sequence[Measure]) -> None:
        self.measures = measures
        self._wait = SAVE_SECONDS
        self.open(())

    def open(self, layers: Sequence[int]) -> None:
        """Begin a training with layers of these numbers."""
        self.layers = np.array(layers, dtype=int)
        self._values = StepValues(self.measures)
        self._saved = time.monotonic()
        self._passed = self._drawn = 0  # steps whose curves and pictures the loggers have

    @property
    def last_step(self) -> int | None:
        """The last step with values, counting those of the training that this one resumes."""
        return self._values.steps[-1] if self._values.steps else None

    def add(
        self, trainer: L.Trainer, step: int, values: Float[Tensor, "measures layers *neurons"]
    ) -> None:
        """Add the values of a step, not their logarithms."""
        if self._values.add(step, values):
            self._show(trainer)
        if time.monotonic() - self._saved > self._wait:
            self._save(trainer, GROWTH)

    def close(self, trainer: L.Trainer) -> None:
        """Pass on all remaining values."""
        self._show(trainer)
        self._save(trainer, growth=1)

    def measurements(self) -> list[MeasureValues]:
        """The values so far; a logarithm of -inf is a zero."""
        return self._values.measurements(self.layers)

    def state_dict(self) -> dict[str, Tensor]:
        """All steps and values so far, for a resumed training."""
        # As tensors: checkpoints are loaded with weights_only, which refuses arrays.
        rows = torch.from_numpy(self._values.rows(len(self.layers)))
        return {"steps": torch.tensor(self._values.steps), "rows": rows}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue after the steps of an earlier part of the training."""
        steps, rows = state["steps"].tolist(), state["rows"].numpy()
        self._values = StepValues(self.measures, steps, rows)
        self._passed = len(self._values.steps)  # the run before has logged them

    def _show(self, trainer: L.Trainer) -> None:
        """Give the loggers the curves of the new steps."""
        new = self._values.measurements(self.layers, self._passed)
        self._passed = len(self._values.steps)
        log_curves(trainer.loggers, self.measures, new)

    def _save(self, trainer: L.Trainer, growth: float) -> None:
        """Write the arrays, and draw them if they have grown by this factor since the last time."""
        start = time.monotonic()
        count = len(self._values.steps)
        if trainer.is_global_zero and count:
            measured = self.measurements()
            _save_arrays(trainer, measured)
            if count > self._drawn and count >= growth * self._drawn:
                owners = [getattr(each, "measure_log", None) for each in trainer.callbacks]  # type: ignore[attr-defined]
                together: list[tuple[Measure, MeasureValues]] = []
                for log in owners:
                    if isinstance(log, MeasureLog):
                        together += zip(log.measures, log.measurements(), strict=True)
                log_heat_maps(trainer.loggers, self.measures, measured, together)
                self._drawn = count
        self._saved = time.monotonic()
        # All values are written anew each time, so a long training writes less often.
        self._wait = max(SAVE_SECONDS, (self._saved - start) / SAVE_SHARE)


def _save_arrays(trainer: L.Trainer, measured: Sequence[MeasureValues]) -> None:
    """Write values into the run's folder, if it has one: the recording callback's, or the first
    logger's."""
    owners = (*trainer.callbacks, *trainer.loggers)  # type: ignore[attr-defined]
    for name, owner in product(("folder", "log_dir"), owners):
        folder = getattr(owner, name, None)
        if isinstance(folder, str | Path):
            for values in measured:
                save_values(Path(folder), values)
            return
