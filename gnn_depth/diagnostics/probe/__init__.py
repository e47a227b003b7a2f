"""Probe a model: measure every layer in one forward and backward pass, and report problems and
remedies.

``print(gnn_depth.probe(model, batch))`` needs no training, and leaves the model as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from gnn_depth.diagnostics.probe.findings import Finding, find_problems
from gnn_depth.diagnostics.probe.readings import Reading, loss_of, read
from gnn_depth.diagnostics.probe.remedies import (
    Remedy,
    Trial,
    proposed,
    tried,
    unknown_failure_modes,
)
from gnn_depth.diagnostics.probe.report import Report
from gnn_depth.graph import Graph
from gnn_depth.ranges import Range

__all__ = ["Finding", "Reading", "Remedy", "Report", "Trial", "probe"]


def probe(
    model: nn.Module,
    *inputs: Any,
    loss: Callable[[Any], Tensor] | None = None,
    layers: str | Sequence[str] | None = None,
    edge_index: Tensor | Graph | None = None,
    scales: Sequence[float] = (),
    stack: str = "stack",
    title: str | None = None,
    options: Mapping[str, Any] | None = None,
    build: Callable[[Mapping[str, Any]], nn.Module] | None = None,
    try_remedies: bool = False,
) -> Report:
    """Measure every layer of any model in one pass without dropout, and report the problems found.

    .. code-block:: python

        report = gnn_depth.probe(model, x, edge_index, loss=lambda out: cross_entropy(out[mask], y[mask]))
        print(report)

    Afterwards the model's modes, gradients and buffers are as before, and so is the random state.

    Args:
        model: The model, at initialisation or trained, on the device of its inputs.
        inputs: The arguments of the model: a batch, or features and an ``edge_index``.
        loss: Computes the loss from the model's output. The default is the cross-entropy with the
            batch's ``y`` on its ``train_mask``; if the model returns a single number, that number
            is the loss.
        layers: Names of the layers in the model; ``*`` matches any characters but a dot. By default
            all message-passing layers.
        edge_index: The edges, for layers that do not take them as an argument.
        scales: Factors by which each layer's input is multiplied to measure its Lipschitz constant
            there too.
        stack: Name of the module with ``links()`` and ``why_no_law()``, if it is not the model
            itself; a model without these is probed without the balance of its neurons.
        title: Heading of the report.
        options: The model's options, as in the ``model`` section of a config.
        build: Builds a model with other options, and raises a ValueError if they do not fit. With
            it the report proposes remedies: registered parts that declare that they treat what was
            found.
        try_remedies: Probe a model with each remedy too.

    Returns:
        The report: print it, read its ``findings``, get its numbers as a ``frame()``, or write a
            page with
        ``html(path)``. A notebook draws it.

    Raises:
        ValueError: A scale is not positive, the loss is not known, or no module matches ``layers``.
    """
    Range(0, above=True).check("scales", list(scales))

    def run(other: nn.Module) -> Tensor:
        return loss_of(other(*inputs), inputs, loss)

    value, readings, notes = read(model, run, layers, edge_index, stack, scales)
    findings = find_problems(readings)
    remedies: list[Remedy] | None = None
    trials: list[Trial] | None = None
    if build is not None:
        remedies = proposed(findings, options or {}, build)
        if try_remedies:
            quick = partial(
                read, run=run, layers=layers, edge_index=edge_index, stack=stack, scales=None
            )
            trials = tried(
                remedies, Trial("", readings, findings), build, lambda other: quick(other)[1]
            )
        notes += unknown_failure_modes()
    kind = readings[0].layer if readings else "?"
    heading = title or f"{len(readings)} layer{'s' * (len(readings) > 1)} of {kind}"
    return Report(
        f"{heading}, loss {value:.4g}", value, readings, findings, remedies, trials, notes
    )
