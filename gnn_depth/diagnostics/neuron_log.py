"""What was measured of every neuron over a training."""

from collections.abc import Sequence
from typing import Any

import lightning as L
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnn_depth.diagnostics.sink import run_folder
from gnn_depth.measurements import Measurement, save

ROWS = 50  # that wait on their device to be moved at once


class NeuronLog:
    """Keeps a number of every neuron and step, and writes all of them into the run's folder at the end.

    Args:
        names: What is measured, and what their files are called: ``balance_c`` for c.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.open([])

    def open(self, layers: Sequence[int]) -> None:
        """Begin with the neurons of a training, in layers of these numbers."""
        self._layers = np.array(layers, dtype=int)
        self._steps: list[int] = []
        self._new: list[Tensor] = []
        self._blocks: list[Tensor] = []

    def add(self, step: int, values: Float[Tensor, "quantities layers neurons"]) -> None:
        """Take the values of a step; NaN where a layer has fewer neurons than another."""
        self._steps.append(step)
        self._new.append(values)
        if len(self._new) >= ROWS:
            self._move()

    def measurements(self) -> list[Measurement]:
        """All of them."""
        self._move()
        if not self._blocks:
            return []
        values = torch.cat(self._blocks).numpy()
        steps = np.array(self._steps, dtype=int)
        return [
            Measurement(f"balance_{name}", steps, values[:, place], name, False, self._layers)
            for place, name in enumerate(self.names)
        ]

    def write(self, trainer: L.Trainer) -> None:
        """Write the files, where the run has a folder."""
        if (folder := run_folder(trainer)) and trainer.is_global_zero:
            for measurement in self.measurements():
                folder.mkdir(parents=True, exist_ok=True)
                save(folder, measurement)

    def state_dict(self) -> dict[str, Any]:
        """All steps and values so far."""
        self._move()
        return {"steps": torch.tensor(self._steps), "values": list(self._blocks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from an earlier part of the training."""
        self._steps, self._blocks = state["steps"].tolist(), list(state["values"])

    def _move(self) -> None:
        if self._new:
            self._blocks.append(torch.stack(self._new).float().cpu())
        self._new = []
