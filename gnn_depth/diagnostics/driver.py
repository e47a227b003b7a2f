"""Measure the layers of a model, step by step.

Callbacks, :class:`gnn_depth.watch` and the probe all measure with :class:`LayerDriver`.
"""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnn_depth.diagnostics.calls import Call, CallArguments, CallRecorder
from gnn_depth.diagnostics.hooks import entrances, layer_numbers
from gnn_depth.diagnostics.layer_statistics import (
    MOMENTS,
    ZEROS,
    Measure,
    Processes,
    Statistic,
    edges_of,
    of_parameter_gradients,
    update_ratio,
)
from gnn_depth.diagnostics.moments import RowMoments
from gnn_depth.graph import Graph

# The note for gradients that cannot be added up.
LOST = (
    "a state got gradients from several backward passes, of which only the last kept its graph: "
    "use retain_graph=True in all but the last."
)


class LayerDriver:
    """Measures every layer of a model, step by step.

    A step begins with :meth:`begin_step`. :meth:`end_backward` reads the gradients of parameters
    when they are complete, and :meth:`end_step` returns the values. In between, a
    :class:`CallRecorder` collects the hidden states and their gradients.

    A measure has one value for each *column*. A column is usually a layer; see ``by_call``.

    Args:
        model: The model.
        layers: The layers, by name.
        measures: The measures.
        edge_index: The edges, for layers that do not take them as an argument.
        by_call: If a layer is called several times in a forward pass, make each call a column, in
            the order of the calls. Otherwise each name is a column, and the calls of a layer with
            several names go to its names in turn.
        training_only: Calls count only while the model is in training mode.
        keeps_calls: Keep the layers' arguments, to call them again.
        processes: The processes whose batches are measured together.
        scaler: The ``GradScaler`` of the loss, if there is one.
        automatic: Call :meth:`end_backward` at the end of each backward pass of the loss.

    Attributes:
        recorder: The record of all calls in this step.
        notes: Why values could not be measured in this step, by a keyword. Whoever shows a note
            replaces ``{where}``, for example by ``in step 3``.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Mapping[str, nn.Module],
        measures: list[Measure],
        *,
        edge_index: Tensor | Graph | None = None,
        by_call: bool = False,
        training_only: bool = False,
        keeps_calls: bool = False,
        processes: Processes | None = None,
        scaler: Any = None,
        automatic: bool = False,
    ) -> None:
        self.measures = measures
        self.processes = processes or Processes()
        self.notes: dict[str, str] = {}
        self._edge_index = edge_index
        self._by_call = by_call
        self._scaler = scaler
        self._names = list(layers)
        self._layers = list(layers.values())
        # For each layer the module whose input is its hidden state: the layer, or its block.
        self._inputs = entrances(model, self._names)
        self.reads = {measure.reads for measure in measures}
        of_states = [measure.statistic for measure in measures if measure.reads == "states"]
        # Measures share statistics: each is computed once.
        self._of_states: list[Statistic] = list(dict.fromkeys(of_states))
        self._needs_edges = any(statistic.needs_edges for statistic in self._of_states)
        self.recorder = CallRecorder(
            model,
            self._inputs,
            self._layers,
            self._statistics_of if self._of_states else None,
            RowMoments.of if "gradients" in self.reads else None,
            keeps_calls,
            training_only,
        )
        if automatic:
            self.recorder.after_backward = self.end_backward
        # The places of each module's names in self._names. Its calls in a pass go to them in turn.
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(self._inputs):
            self._places.setdefault(module, []).append(place)
        # For each column the place of its name.
        self.columns = list(range(len(self._names)))
        if by_call:  # a module with two names is one layer
            self.columns = [places[0] for places in self._places.values()]
        self._is_by_call = False  # True once a layer has been called several times in a pass
        self._parameters: dict[str, Tensor] = {}  # values of parameters' gradients, by measure
        self._before: list[list[Tensor]] = []  # copies of each layer's parameters
        self._scale: Tensor | None = None  # of the loss in the last backward pass

    # Columns

    @property
    def layers(self) -> dict[int, str]:
        """The name of each column's layer, by the layer's number, or by that of the call."""
        names = [self._names[place] for place in self.columns]
        if self._is_by_call:
            return dict(enumerate(names, start=1))
        return dict(zip(layer_numbers(names), names, strict=True))

    def modules(self) -> list[nn.Module]:
        """The layer of each column."""
        return [self._layers[place] for place in self.columns]

    def calls_by_column(self) -> list[list[Call]]:
        """The calls of each column in the forward passes of the loss."""
        passes: dict[int, list[Call]] = {}
        for call in self.recorder.counted():
            passes.setdefault(call.forward_pass, []).append(call)
        if self._by_call and not self._is_by_call:
            self._is_by_call = any(_repeats(calls) for calls in passes.values())
            if self._is_by_call:
                self.columns = []  # _columns_of adds one for each call
        found: dict[int, list[Call]] = {column: [] for column in range(len(self.columns))}
        for calls in passes.values():
            for column, call in zip(self._columns_of(calls), calls, strict=True):
                found.setdefault(column, []).append(call)
        return [found[column] for column in range(len(found))]

    def _columns_of(self, calls: list[Call]) -> list[int]:
        """The column of each call in a forward pass; new calls get new columns."""
        seen = dict.fromkeys(self._places, 0)
        columns = []
        for number, call in enumerate(calls):
            places = self._places[call.module]
            # A module that is called more often than it has names begins again at its first.
            place = places[seen[call.module] % len(places)]
            seen[call.module] += 1
            if not self._is_by_call:
                columns.append(self.columns.index(place))
                continue
            columns.append(number)
            if number == len(self.columns):
                self.columns.append(place)
        return columns

    # A step

    def begin_step(self) -> None:
        """Forget the last step, and record calls from now on."""
        self.recorder.clear()
        self.notes = {}
        self._parameters, self._scale = {}, None

    def attach(self) -> None:
        """Put the hooks on the model."""
        self.recorder.attach()

    def remove(self) -> None:
        """Remove all hooks from the model."""
        self.recorder.remove()

    @torch.no_grad()
    def end_backward(self, parameter_scale: Tensor | None = None) -> None:
        """Read the gradients of parameters; call this when they are complete and not yet clipped.

        Args:
            parameter_scale: The loss scale that is still in the gradients; a scaler replaces it.
        """
        if self._scaler is not None:
            one = torch.ones((), dtype=torch.float64, device=self.processes.device)
            parameter_scale = self._scale = self._scaler.scale(one)
        measures = [measure for measure in self.measures if measure.reads == "parameters"]
        trained = [any(p.requires_grad for p in layer.parameters()) for layer in self._layers]
        for statistic in dict.fromkeys(measure.statistic for measure in measures):
            of_layers = [of_parameter_gradients(layer, statistic) for layer in self._layers]
            # Gradients of parameters are equal on all processes: gather from this one alone.
            gathered = statistic.gather(of_layers, Processes())
            for measure in measures:
                if measure.statistic is not statistic:
                    continue
                assert measure.compute is not None
                values = measure.compute(gathered)
                # The share of zeros does not depend on the scale.
                if parameter_scale is not None and statistic is not ZEROS:
                    values = values / parameter_scale
                untrained = ~torch.tensor(trained, device=values.device)
                self._parameters[measure.name] = values.masked_fill(untrained, torch.nan)

    def keep_parameters(self) -> None:
        """Copy the parameters before the optimizer's step, if a measure reads updates."""
        if "updates" not in self.reads:
            return
        self._before = []
        for layer in self._layers:
            self._before.append([parameter.detach().clone() for parameter in layer.parameters()])

    @torch.no_grad()
    def end_step(
        self, loss_scale: Tensor | None = None
    ) -> tuple[dict[str, Float[Tensor, "layers"]], RowMoments | None]:
        """Compute the values of all measures except those of updates, and the gradients' moments.

        The gradients are of the mean loss over all processes, and the loss scale of mixed precision
        is divided out. The gradient of a state on which no loss depends is zero. All processes have
        to call this method.

        Args:
            loss_scale: The loss scale; by default that of the scaler.
        """
        calls = self.calls_by_column()
        count = len(calls)
        if self.processes.count > 1:
            (count,) = self.processes.agreed("numbers of layers", [count])
            calls += [[] for _ in range(count - len(calls))]  # others have called more layers
        self._take_notes(calls)
        values: dict[str, Tensor] = {}
        device = self.processes.device
        for number, statistic in enumerate(self._of_states):
            merged = []
            for of_column in calls:
                parts = [call.state[number] for call in of_column if call.state is not None]
                merged.append(statistic.merge(parts, device))
            values |= self._values_of(statistic, statistic.gather(merged, self.processes))
        gradients = None
        if "gradients" in self.reads:
            gradients = self._gradients(calls, self._scale if loss_scale is None else loss_scale)
            values |= self._values_of(None, gradients)
        for name, of_layers in self._parameters.items():
            values[name] = of_layers[self.columns]
        return values, gradients

    def of_updates(self) -> dict[str, Float[Tensor, "layers"]]:
        """Compare the parameters with the copies of :meth:`keep_parameters`, and forget these.

        Returns:
            The values of the measures that read updates; none without copies.
        """
        before, self._before = self._before, []
        values = {}
        if before:
            pairs = zip(self._layers, before, strict=True)
            ratios = [update_ratio(layer, old) for layer, old in pairs]
            for measure in self.measures:
                if measure.reads == "updates" and measure.compute is not None:
                    values[measure.name] = measure.compute(ratios)[self.columns]
        return values

    def _values_of(self, statistic: Statistic | None, merged: Any) -> dict[str, Tensor]:
        """The values of all measures of one statistic of states; None stands for the gradients."""
        found = {}
        for measure in self.measures:
            if statistic is None:
                fits = measure.reads == "gradients"
            else:
                fits = measure.reads == "states" and measure.statistic is statistic
            if fits and measure.compute is not None:
                found[measure.name] = measure.compute(merged)
        return found

    def _gradients(self, calls: list[list[Call]], loss_scale: Tensor | None) -> RowMoments:
        """The moments of the loss's gradients in every column."""
        device = self.processes.device
        columns = []
        # Without a backward pass of the loss the gradients are unknown, not zero. With several
        # processes another one may have had a backward pass.
        is_known = self.processes.count > 1 or self.recorder.had_loss
        for of_column in calls:
            parts = []
            gradients = []
            if is_known:
                # Calls with the same input share its gradient, which counts once.
                of_calls = [call.gradient for call in of_column if call.gradient is not None]
                gradients = list(dict.fromkeys(of_calls))
            for gradient in gradients:
                total = self.recorder.total(gradient)
                if total is None:
                    total = RowMoments.of(torch.zeros(gradient.shape, device=device))
                elif isinstance(total, str):  # "lost"
                    self.notes["lost"] = LOST
                    total = RowMoments.of(torch.full(gradient.shape, torch.nan, device=device))
                parts.append(total)
            columns.append(MOMENTS.merge(parts, device))
        moments = MOMENTS.gather(columns, self.processes)
        # The loss of all processes is the mean of theirs, unless they share their batches.
        factor: Any = 1.0 if self.processes.shared else 1.0 / self.processes.count
        if loss_scale is not None:
            factor = factor / loss_scale
        return moments.times(factor)

    def _statistics_of(self, x: Tensor, arguments: CallArguments) -> list[Any]:
        """All statistics of the hidden state that a layer is called with."""
        edges, sources = None, x
        if self._needs_edges:
            for item in arguments.others:
                if isinstance(item, Graph):  # messages may come from nodes of other processes
                    sources = item.fetch(x.detach())
                    break
            edges = edges_of(sources, arguments, self._edge_index)
            if edges is None:
                self.notes["edges"] = (
                    "layers are called without an edge_index that fits their rows: give watch one."
                )
        found = []
        for statistic in self._of_states:
            found.append(statistic.compute(sources if statistic.needs_edges else x, edges))
        return found

    # Notes

    def _take_notes(self, calls: list[list[Call]]) -> None:
        """Note what could not be measured in this step, and why."""
        recorder, notes = self.recorder, self.notes
        if recorder.in_transform:
            notes["transform"] = (
                "layers were called in a transform of torch.func, or traced: these calls are not "
                "measured."
            )
        if not recorder.calls:
            if not recorder.in_transform:
                notes["called"] = "no layer was called in training mode"
            return
        names = list(self.layers.values())
        missing = [name for name, of_column in zip(names, calls, strict=False) if not of_column]
        if missing:
            notes["missing"] = f"not called {{where}}: {some(missing)}."
        unread = self._named(recorder.unreadable)
        if unread:
            notes["unread"] = (
                f"the first argument is no floating-point tensor, nor a tuple with one: {unread}."
            )
        if "parameters" in self.reads and not self._parameters:
            notes["parameters"] = "no parameter got a gradient from a backward pass {where}."
        if recorder.half and self._scaler is None:
            notes["scaler"] = (
                "gradients are float16: if a GradScaler scales the loss, give it to watch as "
                "scaler."
            )
        if "gradients" in self.reads:
            self._note_gradients()

    def _note_gradients(self) -> None:
        """Note why gradients of states could not be measured in this step."""
        recorder, notes = self.recorder, self.notes
        if recorder.had_only_others:
            notes["gradients"] = (
                "no gradient of a loss arrived at a layer's input {where}: torch.autograd.grad "
                "does not count, call backward() on the loss."
            )
        elif not recorder.reached():
            notes["gradients"] = (
                "no gradient arrived at a layer's input {where}: was there a backward pass?"
            )
        differentiated = {call.module for call in recorder.calls if call.gradient is not None}
        switched_off = {call.module for call in recorder.calls if call.without_autograd}
        inputs = {call.module for call in recorder.calls if call.is_input}
        without = self._named(inputs - differentiated)
        if without and recorder.had_loss:
            notes["input"] = (
                "the state needs no gradient (an input, or behind frozen layers or a detach), so "
                f"its gradient is empty: {without}."
            )
        without = self._named(switched_off - differentiated)
        if without and recorder.had_loss:
            notes["checkpoint"] = (
                "the state is computed without autograd, as in torch.no_grad or a checkpoint with "
                f"use_reentrant=True, so its gradient is not measured: {without}."
            )

    def _named(self, modules: set[nn.Module]) -> str:
        """The names of some modules, as text; empty if there are none."""
        pairs = zip(self._names, self._inputs, strict=True)
        return some([name for name, module in pairs if module in modules])


def _repeats(calls: list[Call]) -> bool:
    """True if a layer is called more than once in a forward pass."""
    modules = [call.module for call in calls]
    return len(set(modules)) < len(modules)


def some(names: list[str]) -> str:
    """At most three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
