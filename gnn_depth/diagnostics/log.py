"""The measure log: writes measured values as curves to the loggers and as arrays to the run's
folder."""

import time
from collections.abc import Sequence
from itertools import chain, product
from pathlib import Path

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.layer_statistics import Measure
from gnn_depth.diagnostics.loggers import log_curves, log_heat_maps, log_layout
from gnn_depth.measurements import MeasureValues, save_values

ROWS, SECONDS = 50, 2.0  # steps, or time, after which a block goes to the loggers
SAVE_SECONDS = 30.0  # between two writes of the files
SAVE_SHARE = 0.02  # the share of time that writing may take
MAX_CURVES, THINNED = 32, 16
GROWTH = 1.25  # growth in steps from one picture to the next: each stays in the event file


def curve_points(
    measure: Measure, layers: np.ndarray, values: Float[np.ndarray, "layers"]
) -> dict[str, float]:
    """The points of a measure's curves in one step: those of the layers, and a summary of them."""
    count = len(values)
    # So many curves can still be told apart.
    shown = np.arange(count)
    if count > MAX_CURVES:
        shown = np.linspace(0, count - 1, THINNED).round().astype(int)
    points = {f"layer_{layers[place]:03d}": values[place] for place in shown}
    points |= {"first": values[0], "middle": values[(count - 1) // 2], "last": values[-1]}
    finite = values[np.isfinite(values)]
    if len(finite):
        points |= {"min": finite.min(), "max": finite.max()}
    if measure.product:
        with np.errstate(invalid="ignore"):  # the product of zero and infinity
            points["product"] = values.sum()
    return {
        f"{measure.tag}/{name}": float(value)
        for name, value in points.items()
        if np.isfinite(value)  # loggers draw no gap for NaN, or refuse it
    }


class MeasureLog:
    """Keeps measured values on their device and passes them on in blocks, so that the host waits
    once per block.

    Loggers get the values or their logarithms as ``TAG/layer_007``; if there are more than 32
    layers, 16 are shown. As a summary over the layers they get ``TAG/first``, ``middle``, ``last``,
    ``min`` and ``max``. A :class:`CSVLogger` gets nothing, because each curve would be a column of
    its table. Values that are not finite are left out of the curves. TensorBoard, W&B and MLflow
    also get a heat map of each measure, and TensorBoard a page with the five summary curves of
    every measure. The full arrays are saved as files in the folder of the run or, without one, of a
    logger; if neither has a folder, no files are written. Files and heat maps are written at most
    twice a minute, and at the end.

    Args:
        measures: What is measured.
        shown: False if there are only files: values of every neuron would be too many curves.
    """

    def __init__(self, measures: Sequence[Measure], shown: bool = True) -> None:
        self.measures = measures
        self.shown = shown
        self._wait = SAVE_SECONDS
        self.open(())

    def open(self, layers: Sequence[int]) -> None:
        """Begin a training with layers of these numbers."""
        self.layers = np.array(layers, dtype=int)
        self._new: list[tuple[int, Tensor]] = []
        self._steps: list[int] = []
        self._rows: list[np.ndarray] = []
        self._flushed = self._saved = time.monotonic()
        self._passed = self._drawn = 0  # rows whose curves and pictures the loggers have
        self._laid_out = False

    @property
    def last_step(self) -> int | None:
        """The last step with values, counting those of the training that this one resumes."""
        if self._new:
            return self._new[-1][0]
        return self._steps[-1] if self._steps else None

    def add(
        self, trainer: L.Trainer, step: int, values: Float[Tensor, "measures layers *neurons"]
    ) -> None:
        """Add the values of a step, not their logarithms."""
        self._new.append((step, values))
        now = time.monotonic()
        if len(self._new) > ROWS or now - self._flushed > SECONDS:
            self._flush(trainer)
        if now - self._saved > self._wait:
            self._save(trainer, GROWTH)

    def close(self, trainer: L.Trainer) -> None:
        """Pass on all remaining values."""
        self._flush(trainer)
        self._save(trainer, growth=1)

    def measurements(self) -> list[MeasureValues]:
        """The values so far; a logarithm of -inf is a zero."""
        self._move()
        rows = np.empty((0, len(self.measures), len(self.layers)))
        if self._rows:
            rows = np.stack(self._rows)
        steps = np.array(self._steps, dtype=int)
        found = []
        for place, measure in enumerate(self.measures):
            found.append(measure.values_in(steps, rows[:, place], self.layers))
        return found

    def state_dict(self) -> dict[str, Tensor]:
        """All steps and values so far, for a resumed training."""
        self._move()
        # As tensors: checkpoints are loaded with weights_only, which refuses arrays.
        values = torch.from_numpy(np.stack(self._rows)) if self._rows else torch.empty(0)
        return {"steps": torch.tensor(self._steps), "values": values}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue after the steps of an earlier part of the training."""
        self._steps, self._rows = state["steps"].tolist(), list(state["values"].numpy())
        self._passed = len(self._rows)  # the run before has logged them

    def _move(self) -> None:
        """Move the newest values to the host, and take logarithms where they are shown."""
        if not self._new:
            return
        steps, values = zip(*self._new, strict=True)
        rows: np.ndarray = torch.stack(values).cpu().numpy()  # the one wait for the device
        log10 = [measure.log10 for measure in self.measures]
        with np.errstate(divide="ignore"):
            rows[:, log10] = np.log10(rows[:, log10])
        self._steps += steps
        self._rows += list(rows)
        self._new = []

    def _flush(self, trainer: L.Trainer) -> None:
        self._flushed = time.monotonic()
        self._move()
        if not self.shown:
            return
        self._lay_out(trainer)
        passed, self._passed = self._passed, len(self._rows)
        curves = []
        for step, row in zip(self._steps[passed:], self._rows[passed:], strict=True):
            points: dict[str, float] = {}
            for measure, values in zip(self.measures, row, strict=True):
                points |= curve_points(measure, self.layers, values)
            curves.append((step, points))
        if curves:
            log_curves(trainer.loggers, curves)

    def _lay_out(self, trainer: L.Trainer) -> None:
        """Order the curves of all callbacks on one page; done by the first log of a training, once
        all are set up."""
        laid_out, self._laid_out = self._laid_out, True
        if laid_out or not trainer.is_global_zero:
            return
        logs = []
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            for part in vars(callback).values():
                if isinstance(part, MeasureLog) and part.shown:
                    logs.append(part)
        if logs[:1] == [self]:  # a layout replaces the one before it: one log writes that of all
            measures = chain.from_iterable(log.measures for log in logs)
            log_layout(trainer.loggers, measures)

    def _save(self, trainer: L.Trainer, growth: float) -> None:
        """Write the arrays, and draw them if they have grown by this factor since the last time."""
        start = time.monotonic()
        if trainer.is_global_zero and self._rows:
            measured = self.measurements()
            save_measurements(trainer, measured)
            has_grown = len(self._rows) > self._drawn and len(self._rows) >= growth * self._drawn
            if self.shown and has_grown:
                tags = [measure.tag for measure in self.measures]
                log_heat_maps(trainer.loggers, zip(tags, measured, strict=True))
                self._drawn = len(self._rows)
        self._saved = time.monotonic()
        # All values are written anew each time, so a long training writes less often.
        self._wait = max(SAVE_SECONDS, (self._saved - start) / SAVE_SHARE)


def save_measurements(trainer: L.Trainer, measured: Sequence[MeasureValues]) -> None:
    """Write values into the run's folder, if it has one: the recording callback's, or the first
    logger's."""
    if not trainer.is_global_zero:
        return
    owners = (*trainer.callbacks, *trainer.loggers)  # type: ignore[attr-defined]
    for name, owner in product(("folder", "log_dir"), owners):
        folder = getattr(owner, name, None)
        if isinstance(folder, str | Path):
            for values in measured:
                save_values(Path(folder), values)
            return
