"""Watch any module in a training loop of one's own: every layer's states, gradients and parameters,
step by step."""

import html
import operator
import warnings
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.driver import LayerDriver
from gnn_depth.diagnostics.first_failure import first_failures, needed
from gnn_depth.diagnostics.heat_map import heat_map_figure
from gnn_depth.diagnostics.hooks import layers_of, unwrapped
from gnn_depth.diagnostics.layer_statistics import (
    MEASURES,
    Processes,
    check_edges,
    measures_called,
)
from gnn_depth.diagnostics.log import curve_points
from gnn_depth.diagnostics.loggers import log_curves, log_findings, log_heat_maps
from gnn_depth.graph import Graph
from gnn_depth.measurements import MeasureValues, frame, save_values
from gnn_depth.ranges import Range
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
FAILURES = "first failure"  # key, in a row, of the values from which failures are found
BLOCK = 50  # steps after which values move to the host


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
    no hooks are left on the model, and copies made inside it have none.

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

    Raises:
        ValueError: There is no such layer or measure, ``every`` is not a positive integer, or the
            model is none.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: str | Sequence[str] | None = None,
        measures: Sequence[str] = DEFAULT,
        every: int = 1,
        *,
        edge_index: Tensor | Graph | None = None,
        scaler: torch.amp.GradScaler | None = None,
        shared: bool = False,
    ) -> None:
        self._every = _whole_number("every", every)
        if not isinstance(model, nn.Module):
            raise ValueError(f"watch needs a model, not {model!r}.")
        check_edges(edge_index)
        if scaler is not None and not callable(getattr(scaler, "scale", None)):
            raise ValueError(f"scaler must be a GradScaler, not {scaler!r}.")
        model = unwrapped(model)
        found = layers_of(model, layers)
        self._measures = measures_called(measures)
        device = next(model.parameters(), torch.empty(0)).device
        count = 1
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            count = torch.distributed.get_world_size()
        self._driver = LayerDriver(
            model,
            found,
            self._measures,
            edge_index=edge_index,
            by_call=True,
            training_only=True,
            processes=Processes(count, shared, device),
            scaler=scaler,
            automatic=True,
        )
        self._reads = self._driver.reads
        self._layers = self._driver.layers
        self._notes: dict[str, str] = {}
        self._state = "new"  # then "open", then "ended"
        self._step = 0
        self._steps: list[int] = []
        # The values of each step: tensors first, and arrays once they are moved to the host.
        self._rows: list[dict[str, Any]] = []

    def __enter__(self) -> "watch":
        if self._state != "new":
            raise ValueError("this watch has ended: call gnn_depth.watch again for another block.")
        self._state = "open"
        # The hooks of a watch that is forgotten would stay on the model for ever.
        self._dropped = weakref.finalize(self, _dropped, self._driver)
        self._begin_step()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._dropped.detach()
        self._driver.remove()
        if not self._step and kind is None:
            self._note(
                "steps",
                "watched.step() was never called: call it once after each step of the optimizer.",
            )
        self._state = "ended"
        del self._driver  # so that nothing of the model is kept
        self._move()

    def step(self) -> None:
        """End a step: call it once after each step of the optimizer."""
        if self._state != "open":
            raise ValueError("watched.step() belongs inside the block of its watch.")
        if self._step % self._every == 0:
            self._measure()
        self._step += 1
        self._begin_step()

    def _begin_step(self) -> None:
        """Look at the step that begins, if it is one to measure."""
        self._driver.begin_step()
        if self._step % self._every:
            self._driver.remove()
            return
        self._driver.keep_parameters()
        if self._step == 0 or self._every > 1:  # else the hooks of the step before are there
            self._driver.attach()

    @torch.no_grad()
    def _measure(self) -> None:
        """Record the values of the step that ends."""
        values, gradients = self._driver.end_step()
        row: dict[str, Any] = values | self._driver.of_updates()
        if gradients is not None:
            row[FAILURES] = needed(gradients)
        for kind, text in self._driver.notes.items():
            if kind == "called":
                text = f"{text} {{where}}: call model.train() and run the model."
            self._note(kind, text.replace("{where}", f"in step {self._step}"))
        # A step that called fewer layers, or none, takes no names away.
        layers = self._driver.layers
        if len(layers) >= len(self._layers):
            self._layers = layers
        self._steps.append(self._step)
        self._rows.append(row)
        if len(self._rows) % BLOCK == 0:
            self._move()

    def _move(self) -> None:
        """Move the newest values to the host."""
        for row in self._rows[-BLOCK:]:  # those before have been moved
            for name, values in row.items():
                row[name] = torch.as_tensor(values).cpu().numpy()

    def _note(self, kind: str, text: str) -> None:
        if kind not in self._notes:
            self._notes[kind] = text
            warnings.warn(f"gnn_depth.watch: {text}", stacklevel=4)

    @property
    def notes(self) -> list[str]:
        """Notes on values that could not be measured, with reasons; each was also issued as a
        warning."""
        return list(self._notes.values())

    @property
    def layers(self) -> dict[int, str]:
        """The name of each layer by its number; a layer that is called several times in a pass has
        as many numbers."""
        return dict(self._layers)

    def _numbers(self) -> list[int]:
        """The number of each column's layer."""
        counts = [len(self._layers)]
        for measure in self._measures:
            for row in self._rows:
                counts.append(len(row.get(measure.name, ())) + measure.between)
        if max(counts) == len(self._layers):
            return list(self._layers)
        # Other processes have more layers, whose names are not known here.
        return list(range(1, max(counts) + 1))

    def measurements(self) -> list[MeasureValues]:
        """The values of each measure in all measured steps so far, as logarithms for those that are
        shown as such."""
        self._move()
        steps = np.array(self._steps, dtype=int)
        layers = np.array(self._numbers(), dtype=int)
        count = len(layers)
        found = []
        for measure in self._measures:
            values = np.full((len(steps), count), np.nan)
            for row, of_step in zip(values, self._rows, strict=True):
                of_layers = of_step.get(measure.name, np.empty(0))
                row[: len(of_layers)] = of_layers
            if measure.log10:
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = np.log10(values)
            last = count - measure.between
            found.append(measure.values_in(steps, values[:, :last], layers[:last]))
        return found

    def frame(self) -> "pd.DataFrame":
        """All values in long form: columns ``step``, ``layer``, ``measure``, ``value``."""
        return frame(self.measurements())

    def findings(self) -> dict[str, Any]:
        """The first step and layer at which gradients failed, by kind: see
        :class:`gnn_depth.diagnostics.FirstFailure`.

        Raises:
            ValueError: No measure reads gradients.
        """
        if "gradients" not in self._reads:
            raise ValueError(
                "findings are about gradients: watch one of their measures, such as "
                "gradient_similarity."
            )
        self._move()
        if not self._steps:
            return {}
        layers = self._numbers()
        rows = np.zeros((len(self._rows), 3, len(layers)))
        for row, of_step in zip(rows, self._rows, strict=True):
            row[:, : of_step[FAILURES].shape[1]] = of_step[FAILURES]
        return first_failures(self._steps, rows, layers)

    def __repr__(self) -> str:
        head = (
            f"watch of {len(self._layers)} layers, {self._state}: {len(self._steps)} of "
            f"{self._step} steps measured"
        )
        lines = [head]
        if "gradients" in self._reads:
            for finding in self.findings().values():
                lines.append(finding["text"])
        return "\n  ".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        head, *lines = map(html.escape, repr(self).splitlines())
        return f"<b>{head}</b><pre>{chr(10).join(lines)}</pre>"

    def plot(self, measure: str) -> "Figure":
        """A heat map of a measure over steps and layers, as a Matplotlib figure.

        Raises:
            ValueError: It was not measured, or no step was, or it has no value in any of them.
        """
        found = {one.name: one for one in self.measurements()}
        if measure not in found:
            raise ValueError(unknown("measure", measure, found))
        if not self._steps:
            raise ValueError(
                "no step has been measured: call watched.step() once after each step of the "
                "optimizer."
            )
        if np.isnan(found[measure].values).all():
            why = " ".join(self.notes) or "its layers had none."
            raise ValueError(f"{measure} has no value in any step: {why}")
        return heat_map_figure(found[measure])

    def save(self, folder: str | Path) -> None:
        """Write every measure into ``measures/`` of a folder, for ``gnn-depth plot`` and
        ``gnn_depth.reports``."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for values in self.measurements():
            save_values(Path(folder), values)

    def log(self, *loggers: "Logger") -> None:
        """Send the curves and heat maps of all measures, and the findings, to loggers of Lightning.

        .. code-block:: python

            watched.log(WandbLogger(project="depth", offline=True))
        """
        measured = [(MEASURES[one.name], one) for one in self.measurements()]
        rows: list[dict[str, float]] = [{} for _ in self._steps]
        for measure, one in measured:
            for row, values in zip(rows, one.values, strict=True):
                row |= curve_points(measure, one.layers, values)
        log_curves(loggers, zip(self._steps, rows, strict=True))
        if self._steps:
            log_heat_maps(loggers, [(measure.tag, one) for measure, one in measured])
        if "gradients" in self._reads:
            log_findings(loggers, "FirstFailure", self.findings())


def _dropped(driver: LayerDriver) -> None:
    """Say that a watch was forgotten before its end, and take its hooks off the model."""
    driver.remove()
    warnings.warn(
        "gnn_depth.watch: a watch was dropped before its end: use `with gnn_depth.watch(...) as "
        "watched:`, or keep what __enter__ returns and call __exit__.",
        stacklevel=2,
    )


def _whole_number(name: str, value: Any) -> int:
    """A positive integer; a ValueError for anything else."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, not {value!r}.") from None
    Range(1).check(name, number)
    return number
