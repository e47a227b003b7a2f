"""Watch any module in a training loop of one's own: every layer's states, gradients and parameters,
step by step."""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.first_failure import first_failures, needed
from gnn_depth.diagnostics.heat_map import draw
from gnn_depth.diagnostics.hooks import AtEndOfBackward, entrances, layers_of, numbers, unwrapped
from gnn_depth.diagnostics.log import curves
from gnn_depth.diagnostics.loggers import log_curves, log_findings, log_heat_maps
from gnn_depth.diagnostics.statistics import MEASURES, LayerStatistics, Processes, measures_called
from gnn_depth.graph import Graph
from gnn_depth.measurements import Measurement, frame, save
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
    through skip connections too. Only passes in training mode count. Several backward passes before
    ``watched.step()`` count as parts of one batch. A layer that is called several times in a pass
    counts as one layer per call. Gradients of parameters are read at the end of the backward pass,
    before clipping. Compiled models run uncompiled in the measured steps, and compiled in the
    others.

    If ``torch.distributed`` is initialised, every process has to watch: the batches of all
    processes count as parts of one batch, and the loss is the mean of their losses. After the block
    no hooks are left on the model.

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
        ValueError: There is no such layer or measure, ``every`` is not positive, or the model is
            none.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: str | Sequence[str] | None = None,
        measures: Sequence[str] = DEFAULT,
        every: int = 1,
        *,
        edge_index: Tensor | Graph | None = None,
        scaler: Any = None,
        shared: bool = False,
    ) -> None:
        Range(1).check("every", every)
        if not isinstance(model, nn.Module):
            raise ValueError(f"watch needs a model, not {model!r}.")
        model = unwrapped(model)
        found = layers_of(model, layers)
        self._notes: dict[str, str] = {}
        self._names, self._numbers = list(found), numbers(list(found))
        self._measures, self._every, self._scaler = measures_called(measures), every, scaler
        self._reads = {measure.reads for measure in self._measures}
        modules, inputs = list(found.values()), entrances(model, found)
        self._statistics = LayerStatistics(inputs, modules, self._measures, edge_index, True, model)
        self._model: nn.Module | None = model
        device = next(model.parameters(), torch.empty(0)).device
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self._processes = Processes(
            torch.distributed.get_world_size() if distributed else 1, shared, device
        )
        self._step, self._count, self._attached = 0, len(found), ExitStack()
        self._steps: list[int] = []
        self._rows: list[
            dict[str, Any]
        ] = []  # the values of each step, tensors first and arrays once they are moved

    def __enter__(self) -> "watch":
        if self._model is None:
            raise ValueError("this watch has ended: call gnn_depth.watch again for another block.")
        self._begin_step()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._attached.close()
        if not self._step and kind is None:
            self._note(
                "steps",
                "watched.step() was never called: call it once after each step of the optimizer.",
            )
        # Nothing of the model is kept.
        self._model = self._scaler = None
        self._statistics = LayerStatistics((), (), ())
        self._move()

    def step(self) -> None:
        """End a step: call it once after each step of the optimizer."""
        if self._model is None:
            raise ValueError("watched.step() belongs inside the block of its watch.")
        if self._step % self._every == 0:
            self._measure()
        self._step += 1
        self._begin_step()

    def _begin_step(self) -> None:
        """Look at the step that begins, if it is one to measure."""
        hooks = self._statistics.hooks
        hooks.clear()
        self._of_parameters: dict[str, Tensor] | None = None
        self._scale: Tensor | None = None
        if self._step % self._every:
            self._attached.close()
            return
        self._statistics.keep_parameters()
        if self._step and self._every == 1:  # hooks of the step before
            return
        hooks.attach()
        self._attached.callback(hooks.remove)
        if (
            self._reads != {"gradients"} or self._scaler is not None
        ):  # gradients tell by themselves where a pass ends
            assert self._model is not None
            after = AtEndOfBackward(self._after_backward)
            for parameter in self._model.parameters():
                if parameter.requires_grad:
                    handle = parameter.register_post_accumulate_grad_hook(after)  # type: ignore[no-untyped-call]
                    self._attached.callback(handle.remove)

    @torch.no_grad()
    def _after_backward(self) -> None:
        self._statistics.hooks.end_pass()
        if self._scaler is not None:
            self._scale = self._scaler.scale(
                torch.ones((), dtype=torch.float64, device=self._processes.device)
            )
        self._of_parameters = self._statistics.of_parameters(self._scale)

    @torch.no_grad()
    def _measure(self) -> None:
        """Record the values of the step that ends."""
        statistics = self._statistics
        self._take_notes()
        merged = statistics.merged(self._processes, self._scale)
        row = statistics.values(merged) | (self._of_parameters or {}) | statistics.of_updates()
        if "gradients" in self._reads:
            row[FAILURES] = needed(merged["gradients"])
        for measure in self._measures:
            self._count = max(self._count, len(row.get(measure.name, ())) + measure.between)
        self._steps.append(self._step)
        self._rows.append(row)
        if len(self._rows) % BLOCK == 0:
            self._move()

    def _move(self) -> None:
        """Move the newest values to the host."""
        for row in self._rows[-BLOCK:]:
            row.update(
                {name: torch.as_tensor(values).cpu().numpy() for name, values in row.items()}
            )

    def _take_notes(self) -> None:
        """Warn about values that could not be measured in this step."""
        hooks, names = self._statistics.hooks, dict(enumerate(self._names))
        where = f"in step {self._step}"
        if not hooks.called:
            self._note(
                "called",
                f"no layer was called in training mode {where}: call model.train() and run the "
                "model.",
            )
            return
        if missing := [name for place, name in names.items() if place not in hooks.called]:
            self._note("missing", f"not called {where}: {_some(missing)}.")
        if unread := [name for place, name in names.items() if place in hooks.unreadable]:
            self._note(
                "unread",
                "the first argument is no floating-point tensor, nor a tuple with one: "
                f"{_some(unread)}.",
            )
        if "gradients" in self._reads and not any(hooks.gradients.values()):
            self._note(
                "gradients",
                f"no gradient arrived at a layer's input {where}: was there a backward pass?",
            )
        if "parameters" in self._reads and self._of_parameters is None:
            self._note("parameters", f"no parameter got a gradient from a backward pass {where}.")
        if self._statistics.without_edges:
            self._note(
                "edges",
                "layers are called without an edge_index that fits their rows: give watch one.",
            )
        if hooks.half and self._scaler is None:
            self._note(
                "scaler",
                "gradients are float16: if a GradScaler scales the loss, give it to watch as "
                "scaler.",
            )

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
        in_order = self._count == len(self._names)
        layers = self._numbers if in_order else range(1, self._count + 1)
        return {
            number: self._names[place % len(self._names)] for place, number in enumerate(layers)
        }

    def measurements(self) -> list[Measurement]:
        """The values of each measure in all measured steps so far, as logarithms for those that are
        shown as such."""
        self._move()
        steps, layers = np.array(self._steps, dtype=int), np.array(list(self.layers), dtype=int)
        found = []
        for measure in self._measures:
            values = np.full((len(steps), self._count), np.nan)
            for row, of_step in zip(values, self._rows, strict=True):
                of_layers = of_step.get(measure.name, np.empty(0))
                if measure.reads in ("parameters", "updates") and len(of_layers):
                    of_layers = np.resize(
                        of_layers, self._count
                    )  # the parameters of a layer at each of its calls
                row[: len(of_layers)] = of_layers
            if measure.log10:
                with np.errstate(divide="ignore", invalid="ignore"):
                    values = np.log10(values)
            last = self._count - 1 if measure.between else self._count
            found.append(
                Measurement(
                    measure.name,
                    steps,
                    values[:, :last],
                    measure.unit,
                    measure.log10,
                    layers[:last],
                )
            )
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
        rows = np.zeros((len(self._rows), 3, self._count))
        for row, of_step in zip(rows, self._rows, strict=True):
            row[:, : of_step[FAILURES].shape[1]] = of_step[FAILURES]
        return first_failures(self._steps, rows, list(self.layers)) if self._steps else {}

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
            raise ValueError(
                f"{measure} has no value in any step: "
                f"{' '.join(self.notes) or 'its layers had none.'}"
            )
        return draw(found[measure], fitted=True)

    def save(self, folder: str | Path) -> None:
        """Write every measure into ``measures/`` of a folder, for ``gnn-depth plot`` and
        ``gnn_depth.reports``."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for measurement in self.measurements():
            save(Path(folder), measurement)

    def log(self, *loggers: "Logger") -> None:
        """Send the curves and heat maps of all measures, and the findings, to loggers of Lightning.

        .. code-block:: python

            watched.log(WandbLogger(project="depth", offline=True))
        """
        measured = [(MEASURES[one.name], one) for one in self.measurements()]
        rows: list[dict[str, float]] = [{} for _ in self._steps]
        for measure, one in measured:
            for row, values in zip(rows, one.values, strict=True):
                row |= curves(measure, one.layers, values)
        log_curves(loggers, zip(self._steps, rows, strict=True))
        if self._steps:
            log_heat_maps(loggers, [(measure.tag, one) for measure, one in measured])
        if "gradients" in self._reads:
            log_findings(loggers, "FirstFailure", self.findings())


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
