"""The measure log: writes measured values as curves to the loggers and as arrays to the run's
folder."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.loggers import log_curves, log_heat_maps, log_layout
from gnn_depth.measurements import Measurement, save

ROWS, SECONDS = 50, 2.0  # steps, or time, after which a block goes to the loggers
SAVE_SECONDS, SAVE_SHARE = (
    30.0,
    0.02,
)  # between two writes of the files, and the share of time that writing may take
MAX_CURVES, THINNED = 32, 16
GROWTH = 1.25  # growth in steps from one picture to the next: each stays in the event file


@dataclass(frozen=True)
class Quantity:
    """A quantity that is measured in every layer.

    Attributes:
        name: Name of its file: ``gradient_norm_hidden``.
        tag: Tag of its curves: ``gradient_norm/hidden_log10``.
        unit: Label of its axis.
        product: Add a curve of the product over all layers; only for logarithms.
        log10: Keep and show the logarithm to base 10; False keeps values as they are, negative ones
            too.
    """

    name: str
    tag: str
    unit: str
    product: bool = False
    log10: bool = True

    def __post_init__(self) -> None:
        assert self.log10 or not self.product, (
            "the sum of a curve's values is the product of logarithms only"
        )


def curves(
    quantity: Quantity, layers: np.ndarray, values: Float[np.ndarray, "layers"]
) -> dict[str, float]:
    """The points of a quantity's curves in one step: those of the layers, and of a summary over
    them."""
    count = len(values)
    shown = (
        range(count)
        if count <= MAX_CURVES
        else np.linspace(0, count - 1, THINNED).round().astype(int)
    )
    finite = values[np.isfinite(values)]
    some = {f"layer_{layers[place]:03d}": values[place] for place in shown}
    some |= {"first": values[0], "middle": values[(count - 1) // 2], "last": values[-1]}
    some |= {"min": finite.min(), "max": finite.max()} if len(finite) else {}
    if quantity.product:
        with np.errstate(invalid="ignore"):  # the product of zero and infinity
            some["product"] = values.sum()
    return {
        f"{quantity.tag}/{name}": float(value) for name, value in some.items() if np.isfinite(value)
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
        quantities: What is measured.
        shown: False if there are only files: values of every neuron would be too many curves.
    """

    def __init__(self, quantities: Sequence[Quantity], shown: bool = True) -> None:
        self.quantities = quantities
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
        steps = self._steps[-1:] + [step for step, _ in self._new]
        return steps[-1] if steps else None

    def add(
        self, trainer: L.Trainer, step: int, values: Float[Tensor, "quantities layers *neurons"]
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

    def measurements(self) -> list[Measurement]:
        """The values so far; a logarithm of -inf is a zero."""
        self._move()
        rows = (
            np.stack(self._rows)
            if self._rows
            else np.empty((0, len(self.quantities), len(self.layers)))
        )
        return [
            Measurement(
                q.name,
                np.array(self._steps, dtype=int),
                rows[:, place],
                q.unit,
                q.log10,
                self.layers,
            )
            for place, q in enumerate(self.quantities)
        ]

    def state_dict(self) -> dict[str, Any]:
        """All steps and values so far, for a resumed training."""
        self._move()
        values = torch.from_numpy(np.stack(self._rows)) if self._rows else torch.empty(0)
        return {"steps": torch.tensor(self._steps), "values": values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue after the steps of an earlier part of the training."""
        self._steps, self._rows = state["steps"].tolist(), list(state["values"].numpy())
        self._passed = len(self._rows)

    def _move(self) -> None:
        """Move the newest values to the host, and take logarithms where they are shown."""
        if not self._new:
            return
        steps, values = zip(*self._new, strict=True)
        rows: np.ndarray = torch.stack(values).cpu().numpy()
        log10 = [quantity.log10 for quantity in self.quantities]
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
        if passed < len(self._rows):
            log_curves(
                trainer.loggers,
                zip(self._steps[passed:], map(self._curves, self._rows[passed:]), strict=True),
            )

    def _curves(self, row: np.ndarray) -> dict[str, float]:
        found: dict[str, float] = {}
        for quantity, values in zip(self.quantities, row, strict=True):
            found |= curves(quantity, self.layers, values)
        return found

    def _lay_out(self, trainer: L.Trainer) -> None:
        """Order the curves of all callbacks on one page; done by the first log of a training, once
        all are set up."""
        parts = [part for callback in trainer.callbacks for part in vars(callback).values()]  # type: ignore[attr-defined]
        logs = [part for part in parts if isinstance(part, MeasureLog) and part.shown]
        if not self._laid_out and logs[:1] == [self]:
            every = [
                (quantity.tag, quantity.product) for log in logs for quantity in log.quantities
            ]
            log_layout(trainer.loggers if trainer.is_global_zero else (), every)
        self._laid_out = True

    def _save(self, trainer: L.Trainer, growth: float) -> None:
        """Write the arrays, and draw them if they have grown by this factor since the last time."""
        start = time.monotonic()
        if trainer.is_global_zero and self._rows:
            measured = self.measurements()
            save_measurements(trainer, measured)
            if (
                self.shown
                and len(self._rows) >= growth * self._drawn
                and len(self._rows) > self._drawn
            ):
                tags = [quantity.tag for quantity in self.quantities]
                log_heat_maps(trainer.loggers, zip(tags, measured, strict=True))
                self._drawn = len(self._rows)
        self._saved = time.monotonic()
        self._wait = max(SAVE_SECONDS, (self._saved - start) / SAVE_SHARE)


def save_measurements(trainer: L.Trainer, measured: Sequence[Measurement]) -> None:
    """Write measurements into the run's folder, if it has one: the recording callback's, or the
    first logger's."""
    owners = [*trainer.callbacks, *trainer.loggers]  # type: ignore[attr-defined]
    found = (getattr(owner, name, None) for name in ("folder", "log_dir") for owner in owners)
    folder = next((Path(folder) for folder in found if isinstance(folder, str | Path)), None)
    if folder is None or not trainer.is_global_zero or not measured:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for measurement in measured:
        save(folder, measurement)
