"""Measure the layers of a model, step by step.

Callbacks, :class:`gnn_depth.watch` and the probe all measure with :class:`LayerDriver`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gnn_depth.diagnostics.hooks import entrances, layer_numbers
from gnn_depth.diagnostics.layer_statistics import (
    MOMENTS,
    NORMALIZED,
    ZEROS,
    Measure,
    Processes,
    Rows,
    Statistic,
    edges_of,
    limits_of,
    of_parameter_gradients,
    update_ratio,
)
from gnn_depth.diagnostics.states import Call, CallArguments, OfGradient, StateRecorder, Statistics
from gnn_depth.graph import Graph
from gnn_depth.registry import first_of

NAMED = 3  # layers in a note
# Notes on some layers.
NOTES = {
    "missing": "not called {where}",
    "unread": "the first argument is no floating-point tensor, nor a tuple or batch with one",
    "parameters": "parameters had no gradient at the end of a backward pass {where} (there was "
    "none of the loss, their layer was not called, or a hook has freed it)",
    "input": "the state takes no part in autograd (it is an input, comes from frozen layers, a "
    "detach or torch.no_grad, or is inside a checkpoint with use_reentrant=True), so its gradient "
    "is empty",
}


class LayerDriver:
    """Measures every layer of a model, step by step.

    A step begins with :meth:`begin_step`, and :meth:`end_step` returns the values. In between, a
    :class:`StateRecorder` collects the hidden states and their gradients. The gradients of
    parameters are read at the end of each backward pass of the loss, before they are clipped.

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

    Attributes:
        recorder: The record of all calls in this step.
        notes: Why values could not be measured in this step, by a keyword.
    """

    def __init__(
        self,
        model: nn.Module,
        layers: Mapping[str, nn.Module],
        measures: Sequence[Measure],
        *,
        edge_index: Tensor | Graph | None = None,
        by_call: bool = False,
        training_only: bool = False,
        keeps_calls: bool = False,
        processes: Processes | None = None,
        scaler: Any = None,
    ) -> None:
        self.measures = measures
        self.processes = processes or Processes()
        self._edge_index = edge_index
        self._by_call = by_call
        self._scaler = scaler
        self._names = list(layers)
        self._layers = list(layers.values())
        # For each layer the module whose input is its hidden state: the layer, or its block.
        self._inputs = entrances(model, self._names)
        self.reads = {measure.reads for measure in measures}
        # Measures share statistics: each is computed once.
        self._of_states = _statistics(measures, "states")
        self._of_gradients = _statistics(measures, "gradients")
        self._of_parameters = _statistics(measures, "parameters")
        every = (*self._of_states, *self._of_gradients)
        self._needs_limits = any(one.side is not None for one in every)
        self._needs_graph = self._needs_limits or NORMALIZED in every
        # Measures without a tag serve findings alone: nothing is noted where they are not known.
        asked = {measure.statistic for measure in measures if measure.tag}
        self._sides = {one.side for one in asked if one.side is not None}
        self._needs_edges = bool(self._sides) or any(one.needs_edges for one in asked)
        self.recorder = StateRecorder(
            model,
            self._inputs,
            self._layers,
            self._observe,
            keeps_calls,
            training_only,
        )
        self.recorder.passes.after = self.end_backward
        # The places of each module's names in self._names. Its calls in a pass go to them in turn.
        self._places: dict[nn.Module, list[int]] = {}
        for place, module in enumerate(self._inputs):
            self._places.setdefault(module, []).append(place)
        # For each column the place of its name.
        self._columns = list(range(len(self._names)))
        if by_call:  # a module with two names is one layer
            self._columns = [places[0] for places in self._places.values()]
        # True once a layer has been called several times in a pass, and from then on: columns must
        # mean the same in all steps.
        self._is_by_call = False
        self._before: list[list[Tensor]] = []  # copies of each layer's parameters before the step
        self.begin_step()

    # Columns

    @property
    def layers(self) -> dict[int, str]:
        """The name of each column's layer, by the layer's number, or by that of the call."""
        names = [self._names[place] for place in self._columns]
        if self._is_by_call:  # the numbers in their names would appear several times
            return dict(enumerate(names, start=1))
        return dict(zip(layer_numbers(names), names, strict=True))

    def modules(self) -> list[nn.Module]:
        """The layer of each column."""
        return [self._layers[place] for place in self._columns]

    def calls_by_column(self) -> list[list[Call]]:
        """The calls of each column in the forward passes of the loss."""
        passes = self.recorder.counted()
        repeats = any(len({call.module for call in calls}) < len(calls) for calls in passes)
        if self._by_call and not self._is_by_call and repeats:
            self._is_by_call, self._columns = True, []  # a column is added for each call
        found: list[list[Call]] = [[] for _ in self._columns]
        for calls in passes:
            seen = dict.fromkeys(self._places, 0)
            for column, call in enumerate(calls):
                places = self._places[call.module]
                # A module that is called more often than it has names begins again at its first.
                place = places[seen[call.module] % len(places)]
                seen[call.module] += 1
                if not self._is_by_call:
                    column = self._columns.index(place)
                elif column == len(found):
                    self._columns.append(place)
                    found.append([])
                found[column].append(call)
        return found

    # A step

    def attach(self) -> None:
        """Put the hooks on the model."""
        self.recorder.attach()

    def remove(self) -> None:
        """Remove all hooks from the model."""
        self.recorder.remove()

    def close(self) -> None:
        """Remove all hooks, and forget the step.

        The arguments of a call that is kept refer, through their autograd graph, to the hook that
        refers to the call: a circle that Python does not see and never frees.
        """
        self.remove()
        self.begin_step()

    def begin_step(self, where: str = "") -> None:
        """Forget the last step, and record calls from now on; notes say where, ``in step 3``."""
        self._where = where
        self.recorder.clear()
        self.notes: dict[str, str] = {}
        # The statistics of the gradients of each layer's parameters, and if it has gradients.
        self._parameters: dict[Statistic, list[Any]] = {}
        self._has_gradient = [False] * len(self._layers)
        self._scale: Tensor | float = 1.0  # of the loss, in the last backward pass

    @torch.no_grad()
    def end_backward(self) -> None:
        """Read the gradients of parameters, which are complete and not yet clipped."""
        if self._scaler is not None:
            # Now, as the scaler's update() after the optimizer's step may change its scale.
            one = torch.ones((), dtype=torch.float64, device=self.processes.device)
            self._scale = self._scaler.scale(one)
        for place, layer in enumerate(self._layers):
            self._has_gradient[place] = any(p.grad is not None for p in layer.parameters())
        for statistic in self._of_parameters:
            self._parameters[statistic] = [
                of_parameter_gradients(layer, statistic) for layer in self._layers
            ]

    def keep_parameters(self) -> None:
        """Copy the parameters before the optimizer's step, if a measure reads updates."""
        if "updates" not in self.reads:
            return
        self._before = []
        for layer in self._layers:
            if any(map(is_lazy, layer.parameters())):
                self._before.append([])
                self.notes["lazy"] = (
                    f"no update {self._where}: lazy layers had no weights before it."
                )
            else:
                self._before.append([p.detach().clone() for p in layer.parameters()])

    @torch.no_grad()
    def end_step(self) -> Float[Tensor, "measures columns"]:
        """Compute all measures; updates, and what is undefined, are NaN.

        The gradients are of the mean loss over all processes, and the loss scale of mixed precision
        is divided out. The gradient of a state on which no loss depends is zero. All processes have
        to call this method.
        """
        calls = self.calls_by_column()
        count = len(calls)
        if self.processes.count > 1:
            (count,) = self.processes.agreed("numbers of layers", [count])
            calls += [[] for _ in range(count - len(calls))]  # others have called more layers
        self._take_notes(calls)
        shape, device = (len(self.measures), count), self.processes.device
        values = torch.full(shape, torch.nan, dtype=torch.float64, device=device)
        of_states = []
        for of_column in calls:
            of_states.append([call.state for call in of_column if call.state is not None])
        self._merge(values, "states", self._of_states, of_states)
        # The loss of all processes is the mean of theirs, unless they share their batches.
        factor = 1.0 if self.processes.shared else 1.0 / self.processes.count
        gradients = list(map(self._totals, calls))
        self._merge(values, "gradients", self._of_gradients, gradients, factor / self._scale)
        for statistic, of_layers in self._parameters.items():
            # Gradients of parameters are equal on all processes: gather from this one alone.
            gathered = statistic.gather([of_layers[i] for i in self._columns], Processes())
            self._compute(values, "parameters", statistic, gathered)
        return values

    def add_updates(self, values: Float[Tensor, "measures columns"]) -> None:
        """Compare the parameters with the copies of :meth:`keep_parameters`, if there are any, and
        forget these."""
        before, self._before = self._before, []
        if before:
            ratios = [update_ratio(self._layers[i], before[i]) for i in self._columns]
            self._compute(values, "updates", MOMENTS, ratios)

    def _merge(
        self,
        values: Tensor,
        reads: str,
        statistics: Sequence[Statistic],
        columns: list[list[Statistics]],
        factor: float | Tensor = 1.0,
    ) -> None:
        """Merge the statistics of every column's calls, times a factor, and compute the measures
        that read them."""
        for number, statistic in enumerate(statistics):
            merged = []
            for parts in columns:
                of_column = [part[number] for part in parts]
                merged.append(statistic.merge(of_column, self.processes.device))
            gathered = statistic.gather(merged, self.processes)
            if statistic is MOMENTS:  # the others have no scale
                gathered = gathered.times(factor)
            self._compute(values, reads, statistic, gathered)

    def _compute(self, values: Tensor, reads: str, statistic: Statistic, merged: Any) -> None:
        """Compute all measures that read one statistic of one thing, each into its row."""
        for row, measure in zip(values, self.measures, strict=True):
            if measure.reads != reads or measure.statistic is not statistic:
                continue
            assert measure.compute is not None
            of_columns = measure.compute(merged)
            if reads == "parameters" and statistic is not ZEROS:  # their share has no scale
                of_columns = of_columns / self._scale
            row[: len(of_columns)] = of_columns

    def _totals(self, calls: list[Call]) -> list[Statistics]:
        """The statistics of the loss's gradients in the calls of a column."""
        # Without a backward pass of the loss the gradients are unknown, not zero. With several
        # processes another one may have had a backward pass.
        if self.processes.count == 1 and not self.recorder.had_loss:
            return []
        found = []
        # Calls with the same input share its gradient, which counts once.
        for gradient in dict.fromkeys(call.gradient for call in calls):
            if gradient is None or gradient.measure is None:
                continue
            found.append(self.recorder.total(gradient, self.processes.device))
        if self.recorder.lost:
            self.notes["lost"] = (
                "a state got gradients from several backward passes, of which only the last kept "
                "its graph: use retain_graph=True in all but the last."
            )
        return found

    def _observe(self, x: Tensor, arguments: CallArguments) -> tuple[Statistics, OfGradient | None]:
        """All statistics of the hidden state that a layer is called with, and a function of its
        gradient."""
        rows = self._rows(x, arguments)
        of_state = [statistic.compute(rows) for statistic in self._of_states]
        if not self._of_gradients:
            return of_state, None
        # Not the state itself, which would live as long as the function.
        rows = replace(rows, x=x.new_empty(0), sources=x.new_empty(0))

        def measure(gradient: Tensor) -> Statistics:
            of_gradient = replace(rows, x=gradient)
            return [statistic.compute(of_gradient) for statistic in self._of_gradients]

        return of_state, measure

    def _rows(self, x: Tensor, arguments: CallArguments) -> Rows:
        """A state, with its edges, graph and limits as far as they are needed."""
        rows, graph = Rows(x, x), arguments.graph
        layer = self._layers[self._inputs.index(arguments.module)]
        has_limits = self._needs_limits and hasattr(layer, "limits")
        if not self._needs_edges and not has_limits:
            return rows
        if graph is not None:  # messages may come from nodes of other processes
            rows.sources = graph.fetch(x.detach())
        rows.edges = edges_of(rows.sources, arguments, self._edge_index)
        if rows.edges is None:
            if self._needs_edges:
                self.notes["edges"] = (
                    "layers are called without an edge_index that fits their rows: watch and "
                    "probe take one."
                )
            return rows
        if self._needs_graph:
            rows.graph = (graph or Graph.of(*rows.edges)).whole
        if rows.graph is not None and self._needs_limits:
            rows.limits = limits_of(layer, rows.graph, rows.sources, 1 in self._sides)
            if any(rows.limits[side] is None for side in self._sides):
                self.notes["limit"] = (
                    f"the limit of repeated propagation by {type(layer).__name__} is not known "
                    "(forwards, or backwards) on this graph, or the graph is divided among "
                    "processes: no projection."
                )
        return rows

    # Notes

    def _take_notes(self, calls: list[list[Call]]) -> None:
        """Note what could not be measured in this step, and why."""
        recorder, notes, where = self.recorder, self.notes, self._where
        if recorder.in_transform:
            notes["transform"] = (
                "layers were called in a transform of torch.func, or traced: these calls are not "
                "measured."
            )
        if not recorder.calls:
            if not recorder.in_transform:
                notes["called"] = (
                    f"no layer was called in training mode {where}: call model.train() and run the "
                    "model."
                )
            return  # all other notes would follow from this one
        of_kind: dict[str, list[str]] = {kind: [] for kind in NOTES}
        # Another process may have called more layers, which have no names here.
        for (number, name), of_column in zip(self.layers.items(), calls, strict=False):
            if self._is_by_call:
                name = f"{name} in call {number}"
            readable = [call for call in of_column if call.state is not None]
            needs_gradient = "gradients" in self.reads and recorder.had_loss
            if not of_column:
                of_kind["missing"].append(name)
            elif not readable:
                of_kind["unread"].append(name)
            elif needs_gradient and all(call.gradient is None for call in readable):
                of_kind["input"].append(name)
        for name, layer, has_any in zip(self._names, self._layers, self._has_gradient, strict=True):
            is_trained = any(parameter.requires_grad for parameter in layer.parameters())
            if "parameters" in self.reads and is_trained and not has_any:
                of_kind["parameters"].append(name)
        for kind, names in of_kind.items():
            if names:
                notes[kind] = f"{NOTES[kind].format(where=where)}: {first_of(names, NAMED)}."
        # Float16 without a scaler would lose most gradients, so there is one that was not given.
        if recorder.half and self._scaler is None:
            notes["scaler"] = (
                "gradients are float16: if a GradScaler scales the loss, give it to watch as "
                "scaler."
            )
        is_read = len(of_kind["unread"]) < len(calls)
        if "gradients" in self.reads and is_read and not recorder.reached():
            notes["gradients"] = (
                f"no gradient arrived at a layer's input {where}: call backward() on the loss "
                "(torch.autograd.grad does not count)."
            )


def _statistics(measures: Sequence[Measure], reads: str) -> list[Statistic]:
    """The statistics of states, gradients or parameters that some measures need."""
    return list(dict.fromkeys(each.statistic for each in measures if each.reads == reads))
