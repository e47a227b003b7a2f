"""Watch any module in a training loop of one's own: every layer's states, gradients and parameters,
step by step."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.first_failure import EXAMINED, first_failures
from gnn_depth.diagnostics.heat_map import heat_map
from gnn_depth.diagnostics.hooks import layers_of, unwrapped
from gnn_depth.diagnostics.layer_statistics import Processes, measures_called
from gnn_depth.diagnostics.log import StepValues
from gnn_depth.diagnostics.loggers import log_curves, log_findings, log_heat_maps
from gnn_depth.graph import Graph
from gnn_depth.measurements import MeasureValues, frame, save_values
from gnn_depth.ranges import Count, in_range
from gnn_depth.registry import unknown

if TYPE_CHECKING:
    import pandas as pd
    from lightning.pytorch.loggers import Logger
    from matplotlib.figure import Figure

DEFAULT = (
    "representation_norm",
    "representation_similarity",
    "representation_similarity_relative",
    "gradient_norm_hidden",
    "gradient_norm_parameters",
    "gradient_similarity",
    "gradient_similarity_relative",
    "gradient_expansion",
)


class watch:  # noqa: N801 - a context manager
    """Watch a model in a training loop: measure every layer in each step, or in every n-th.

    .. code-block:: python

        with gnn_depth.watch(model, layers="convs.*") as watched:
            for step in range(200):
                loss = cross_entropy(model(x, edge_index)[mask], y[mask])
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                watched.step()
        watched.frame()

    Watching does not affect training. A layer's state is its first argument (the first tensor, if
    that is a tuple), and its gradient is the total gradient of the loss with respect to the state,
    through skip connections too. Only passes in training mode count. The batches of several
    backward passes before ``watched.step()`` count as parts of one batch, and several backward
    passes through one state are added. Passes of ``torch.autograd.grad`` do not count, nor do
    passes whose gradients were reset before the step, as the first evaluations of LBFGS are. A
    layer that is called several times in a pass counts as one layer per call, in their order.
    Gradients of parameters are read at the end of the backward pass, before clipping. Compiled
    models run uncompiled in the measured steps, and compiled in the others.

    If ``torch.distributed`` is initialised, every process has to watch: the batches of all
    processes count as parts of one batch, and the loss is the mean of their losses. After the block
    no hooks are left on the model. Copies made inside it are not measured.

    Args:
        model: The model, or the ``ModuleList`` of a loop written by hand.
        layers: Names of the layers in the model; ``*`` matches any characters but a dot. By default
            all message-passing layers.
        measures: Names of :data:`gnn_depth.diagnostics.MEASURES`.
        every: Number of steps from one measured step to the next.
        edge_index: The edges, for layers that do not take them as an argument.
        scaler: The ``GradScaler`` that scales the loss, so that gradients can be measured without
            its factor.
        shared: True if all processes have the same batch, not parts of one.
        optimizer: Ends a step at each of its steps, in place of ``watched.step()``.

    Attributes:
        layers: The name of each layer by its number; a layer that is called several times in a pass
            has as many numbers.

    Raises:
        ValueError: There is no such layer or measure, ``every`` is not positive, or the
            model is none.
    """

    @in_range
    def __init__(
        self,
        model: nn.Module,
        layers: str | Sequence[str] | None = None,
        measures: Sequence[str] = DEFAULT,
        every: Count = 1,
        *,
        edge_index: Tensor | Graph | None = None,
        scaler: torch.amp.GradScaler | None = None,
        shared: bool = False,
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        self._every = every
        if not isinstance(model, nn.Module):
            raise ValueError(f"watch needs a model, not {model!r}.")
        model = unwrapped(model)
        found = layers_of(model, layers)
        self._measures = measures_called(measures)
        reads_gradients = any(measure.reads == "gradients" for measure in self._measures)
        # Findings come from values of the gradients: in rows of their own, after the measures.
        self._examined = EXAMINED if reads_gradients else ()
        device = next(model.parameters(), torch.empty(0)).device
        count = 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            count = torch.distributed.get_world_size()
        self._driver = LayerDriver(
            model,
            found,
            (*self._measures, *self._examined),
            edge_index=edge_index,
            by_call=True,
            training_only=True,
            processes=Processes(count, shared, device),
            scaler=scaler,
        )
        self._values = StepValues(self._driver.measures)
        self.layers = self._driver.layers
        self._columns = len(self.layers)  # other processes may have called more layers
        self._notes: dict[str, str] = {}
        self._state = "new"  # then "open", then "ended"
        self._step = 0
        self._optimizer = optimizer

    def __enter__(self) -> "watch":
        if self._state != "new":
            raise ValueError("this watch has ended: call gnn_depth.watch again for another block.")
        self._state = "open"
        if self._optimizer is not None:
            self._hook = self._optimizer.register_step_post_hook(lambda *_: self._end_step())
        self._begin_step()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._driver.remove()
        if self._optimizer is not None:
            self._hook.remove()
        if not self._step and kind is None:
            self._note(
                "steps",
                "watched.step() was never called: call it once after each step of the optimizer, "
                "or give watch the optimizer.",
            )
        self._state = "ended"
        del self._driver  # so that nothing of the model is kept
        self._values.rows(self._columns)  # nor of the device

    def step(self) -> None:
        """End a step: call it once after each step of the optimizer, unless watch has that."""
        if self._state != "open" or self._optimizer is not None:
            raise ValueError(
                "watched.step() belongs inside the block of its watch, which has no optimizer."
            )
        self._end_step()

    def _end_step(self) -> None:
        if self._step % self._every == 0:
            values = self._driver.end_step()
            self._driver.add_updates(values)
            for kind, text in self._driver.notes.items():
                self._note(kind, text)
            # A step that called fewer layers, or none, takes no names away.
            layers = self._driver.layers
            self.layers = max(layers, self.layers, key=len)
            self._columns = max(self._columns, len(layers), values.shape[1])
            if self._values.add(self._step, values):
                self._values.rows(self._columns)
        self._step += 1
        self._begin_step()

    def _begin_step(self) -> None:
        """Look at the step that begins, if it is one to measure."""
        self._driver.begin_step(f"in step {self._step}")
        if self._step % self._every:
            self._driver.remove()
            return
        self._driver.keep_parameters()
        if self._step == 0 or self._every > 1:  # else the hooks of the step before are there
            self._driver.attach()

    def _note(self, kind: str, text: str) -> None:
        if kind not in self._notes:
            self._notes[kind] = text
            warnings.warn(f"gnn_depth.watch: {text}", stacklevel=4)

    @property
    def notes(self) -> list[str]:
        """Notes on values that could not be measured, with reasons; each was also issued as a
        warning."""
        return list(self._notes.values())

    def _numbers(self) -> np.ndarray:
        """The number of each column's layer."""
        numbers = list(self.layers)
        if len(numbers) < self._columns:  # other processes have more, whose names are not known
            numbers = list(range(1, self._columns + 1))
        return np.array(numbers, dtype=int)

    def measurements(self) -> list[MeasureValues]:
        """The values of each measure in all measured steps so far, as logarithms for those that are
        shown as such."""
        return self._values.measurements(self._numbers())[: len(self._measures)]

    def frame(self) -> "pd.DataFrame":
        """All values in long form: columns ``step``, ``layer``, ``measure``, ``value``."""
        return frame(self.measurements())

    def findings(self) -> dict[str, Any]:
        """The first step and layer at which gradients failed, by kind: see
        :class:`gnn_depth.diagnostics.FirstFailure`.

        Raises:
            ValueError: No measure reads gradients.
        """
        if not self._examined:
            raise ValueError(
                "findings are about gradients: watch one of their measures, such as "
                "gradient_similarity."
            )
        rows = self._values.rows(self._columns)[:, len(self._measures) :]
        if not len(rows):
            return {}
        return first_failures(self._values.steps, rows, self._numbers().tolist())

    def __repr__(self) -> str:
        lines = [
            f"watch of {len(self.layers)} layers, {self._state}: {len(self._values.steps)} of "
            f"{self._step} steps measured"
        ]
        if self._examined:
            lines += [finding["text"] for finding in self.findings().values()]
        return "\n  ".join(lines + self.notes)

    def plot(self, measure: str, recent: int | None = None) -> "Figure":
        """A heat map of a measure over steps and layers, as a Matplotlib figure.

        Args:
            measure: Its name.
            recent: Let colours span the values of so many last measured steps, as those of the
                first steps can hide all that follows.

        Raises:
            ValueError: It was not measured, or no step was.
        """
        found = {one.name: one for one in self.measurements()}
        if measure not in found:
            raise ValueError(unknown("measure", measure, found))
        if not self._values.steps:
            raise ValueError(
                "no step has been measured: call watched.step() once after each step of the "
                "optimizer."
            )
        return heat_map(found[measure], recent)

    def save(self, folder: str | Path) -> None:
        """Write every measure into ``measures/`` of a folder, for ``gnn-depth plot`` and
        ``gnn_depth.reports``."""
        for values in self.measurements():
            save_values(Path(folder), values)

    def log(self, *loggers: "Logger", name: str = "") -> None:
        """Send the curves and heat maps of all measures, and the findings, to loggers of Lightning.
        A name stands before their tags, so that two networks can share a log.

        .. code-block:: python

            watched.log(WandbLogger(project="depth", offline=True))
        """
        prefix = f"{name}/" if name else ""
        if self._values.steps:
            measured = self.measurements()
            measures = [replace(one, tag=prefix + one.tag) for one in self._measures]
            log_curves(loggers, measures, measured)
            log_heat_maps(loggers, measures, measured)
        if self._examined:
            log_findings(loggers, f"{prefix}FirstFailure", self.findings())
