"""Where what was measured goes: to the loggers as curves, and into the run's folder as arrays."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from lightning.pytorch.loggers import CSVLogger
from torch import Tensor

from gnn_depth.diagnostics import boards
from gnn_depth.measurements import Measurement, save

ROWS, SECONDS = 50, 2.0  # a block for the loggers, as training.loggers has them
SAVE_SECONDS, SAVE_SHARE = 30.0, 0.02  # between two files, and of the time for writing them
MAX_CURVES, THINNED = 32, 16
GROWTH = 1.25  # of the steps from one picture to the next: each stays in the file of events


@dataclass(frozen=True)
class Quantity:
    """Something that is measured in every layer.

    Attributes:
        name: Of its file: ``gradient_norm_hidden``.
        tag: Of its curves: ``gradient_norm/hidden_log10``.
        unit: What an axis says.
        product: Whether the product over all layers is a curve too; of a logarithm only.
        log10: Whether its logarithm to base 10 is kept and shown; False keeps values as they are, negative ones too.
    """

    name: str
    tag: str
    unit: str
    product: bool = False
    log10: bool = True

    def __post_init__(self) -> None:
        assert self.log10 or not self.product, "the sum of a curve's values is the product of logarithms only"


class Sink:
    """Keep what is measured on its device, and hand it on in blocks: the host waits for the device once a block.

    Loggers get the values or their logarithms as ``TAG/layer_007``, of more than 32 layers 16. A :class:`CSVLogger`
    gets nothing: each of these curves would be a column of its table. A curve has no point where a value is not
    finite: no axis could show it. TensorBoard gets a heat map of each measure too, and a page on which all curves stand
    in order. The whole arrays are files of the run's folder, written twice a minute at most and at the end, as the heat
    maps are; where a run has neither a folder nor a logger with one there are none.

    Args:
        quantities: What is measured.
    """

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        self.quantities = quantities
        self.layers = np.empty(0, dtype=int)
        self._new: list[tuple[int, Tensor, bool]] = []
        self._steps: list[int] = []
        self._rows: list[np.ndarray] = []
        self._flushed = self._saved = time.monotonic()
        self._wait = SAVE_SECONDS
        self._drawn, self._laid_out = 0, False

    def open(self, layers: Sequence[int]) -> None:
        """Begin with the measures of a training, in layers of these numbers."""
        self.layers = np.array(layers)
        self._new, self._steps, self._rows = [], [], []
        self._flushed = self._saved = time.monotonic()
        self._drawn, self._laid_out = 0, False

    @property
    def last_step(self) -> int | None:
        """The last step that is there, of the training that this one resumes too."""
        steps = [*self._steps[-1:], *(step for step, _, _ in self._new[-1:])]
        return steps[-1] if steps else None

    def add(self, trainer: L.Trainer, step: int, values: Float[Tensor, "quantities layers"], keep: bool = True) -> None:
        """Take the values of a step.

        Args:
            trainer: Has the loggers.
            step: Number of steps before it.
            values: Not their logarithms; NaN where there is nothing.
            keep: Whether they stay when another step follows.
        """
        if self._new and not self._new[-1][2]:
            self._new.pop()
        self._new.append((step, values, keep))
        now = time.monotonic()
        if len(self._new) > ROWS or now - self._flushed > SECONDS:
            self._flush(trainer, self._new[:-1] if not keep else self._new)
        if now - self._saved > self._wait:
            self._save(trainer, GROWTH)

    def close(self, trainer: L.Trainer) -> None:
        """Hand on everything."""
        self._flush(trainer, self._new)
        self._save(trainer, growth=1)

    def measurements(self) -> list[Measurement]:
        """What was handed on so far; of logarithms, -inf is a zero."""
        rows = np.stack(self._rows) if self._rows else np.empty((0, len(self.quantities), len(self.layers)))
        return [
            Measurement(q.name, np.array(self._steps, dtype=int), rows[:, place], q.unit, q.log10, self.layers)
            for place, q in enumerate(self.quantities)
        ]

    def _flush(self, trainer: L.Trainer, new: list[tuple[int, Tensor, bool]]) -> None:
        self._flushed = time.monotonic()
        self._lay_out(trainer)
        if not new:
            return
        rows = self._shown([values for _, values, _ in new])
        steps = [step for step, _, _ in new]
        self._new, self._steps, self._rows = self._new[len(new) :], self._steps + steps, [*self._rows, *rows]
        for logger in trainer.loggers:
            if not isinstance(logger, CSVLogger):
                for step, row in zip(steps, rows, strict=True):
                    logger.log_metrics(self._curves(row), step)
                logger.save()

    def _shown(self, values: list[Tensor]) -> np.ndarray:
        """Values of several steps on the host, and the logarithms of those quantities that are shown so."""
        rows: np.ndarray = torch.stack(values).cpu().numpy()
        log10 = [quantity.log10 for quantity in self.quantities]
        with np.errstate(divide="ignore"):
            rows[:, log10] = np.log10(rows[:, log10])
        return rows

    def _curves(self, row: np.ndarray) -> dict[str, float]:
        count = len(self.layers)
        shown = range(count) if count <= MAX_CURVES else np.linspace(0, count - 1, THINNED).round().astype(int)
        curves = {
            f"{quantity.tag}/layer_{self.layers[place]:03d}": float(row[number, place])
            for number, quantity in enumerate(self.quantities)
            for place in shown
        }
        with np.errstate(invalid="ignore"):  # of zero and infinity
            products = {f"{q.tag}/product": float(row[n].sum()) for n, q in enumerate(self.quantities) if q.product}
        return {tag: value for tag, value in (curves | products).items() if np.isfinite(value)}

    def _lay_out(self, trainer: L.Trainer) -> None:
        """Order the curves of all callbacks: the first sink of a training does it once, when all have been set up."""
        parts = [part for callback in trainer.callbacks for part in vars(callback).values()]  # type: ignore[attr-defined]
        sinks = [part for part in parts if isinstance(part, Sink)]
        if not self._laid_out and sinks[:1] == [self]:
            boards.lay_out(
                trainer, [(quantity.tag, quantity.product) for sink in sinks for quantity in sink.quantities]
            )
        self._laid_out = True

    def _save(self, trainer: L.Trainer, growth: float) -> None:
        """Write the arrays, and draw them if they have grown so much since the last time."""
        start = time.monotonic()
        if trainer.is_global_zero and self._rows:
            measured = self.measurements()
            if folder := run_folder(trainer):
                folder.mkdir(parents=True, exist_ok=True)
                for measurement in measured:
                    save(folder, measurement)
            if len(self._rows) >= growth * self._drawn and len(self._rows) > self._drawn:
                boards.show(trainer, zip([quantity.tag for quantity in self.quantities], measured, strict=True))
                self._drawn = len(self._rows)
        self._saved = time.monotonic()
        self._wait = max(SAVE_SECONDS, (self._saved - start) / SAVE_SHARE)

    def state_dict(self) -> dict[str, Any]:
        """All steps and values so far, so that a resumed training goes on with them."""
        steps = [*self._steps, *(step for step, _, keep in self._new if keep)]
        new = [values for _, values, keep in self._new if keep]
        rows = [*self._rows, *(self._shown(new) if new else ())]
        return {"steps": torch.tensor(steps), "values": torch.from_numpy(np.stack(rows)) if steps else torch.empty(0)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from the steps and values of an earlier part of the training."""
        self._steps, self._rows = state["steps"].tolist(), list(state["values"].numpy())


def run_folder(trainer: L.Trainer) -> Path | None:
    """The folder of a run: of the callback that records it, or of the first logger that has one."""
    owners = [*trainer.callbacks, *trainer.loggers]  # type: ignore[attr-defined]
    found = (getattr(owner, name, None) for name in ("folder", "log_dir") for owner in owners)
    return next((Path(folder) for folder in found if isinstance(folder, str | Path)), None)
