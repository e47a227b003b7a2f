"""Probe a model: measure every layer in one forward and backward pass, and report problems and
remedies.

``print(gnn_depth.probe(model, batch))`` needs no training, and leaves the model as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gnn_depth.diagnostics.hooks import layers_of, unwrapped
from gnn_depth.diagnostics.probe.findings import FAILURE_MODES, Finding, find_problems
from gnn_depth.diagnostics.probe.layer_values import loss_of, measure_layers
from gnn_depth.diagnostics.probe.remedies import REMEDIES, Build, Remedy, add_remedy, proposed
from gnn_depth.diagnostics.probe.report import Report
from gnn_depth.diagnostics.probe.trainings import short_trainings
from gnn_depth.graph import Graph
from gnn_depth.ranges import Range

__all__ = ["FAILURE_MODES", "REMEDIES", "Finding", "Remedy", "Report", "add_remedy", "probe"]


def probe(
    model: nn.Module,
    *inputs: object,
    loss: Callable[[Any], Tensor] | None = None,
    layers: str | Sequence[str] | None = None,
    edge_index: Tensor | Graph | None = None,
    scales: Sequence[float] = (),
    title: str | None = None,
    options: Mapping[str, Any] | None = None,
    build: Build | None = None,
    steps: int = 0,
) -> Report:
    """Measure every layer of any model in one pass without dropout, and report the problems found.

    .. code-block:: python

        loss = lambda out: cross_entropy(out[mask], y[mask])
        report = gnn_depth.probe(model, x, edge_index, loss=loss)
        print(report)

    A layer that is called several times in the pass is measured at each call. A value that cannot
    be measured is left out, with a note on the reason. Afterwards the model's modes, gradients and
    buffers are as before, and so is the random state.

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
        title: Heading of the report.
        options: The model's options, as in the ``model`` section of a config.
        build: Builds a model with other options, and raises a ValueError if they do not fit. With
            it the report proposes remedies: the parts of :data:`REMEDIES` against what was found.
        steps: Train a model of these options, and the same one with 4 layers, for some steps: the
            report shows the loss and the gradient of both.

    Returns:
        The report: print it, read its ``findings``, or get its numbers as a ``frame()``.

    Raises:
        ValueError: A scale is not positive, the loss is not known, no module matches ``layers``, a
            remedy is not registered, or steps are asked for without ``build``.
    """
    Range(0, above=True).check("scales", list(scales))

    def run(model: nn.Module) -> Tensor:
        return loss_of(model(*inputs), inputs, loss)

    value, values, notes = measure_layers(model, run, layers, edge_index, scales)
    findings = find_problems(values)
    remedies = None
    if build is not None:
        remedies = proposed(findings, options or {}, build)
    if title is None:
        kind = type(next(iter(layers_of(unwrapped(model), layers).values()))).__name__
        title = f"{len(values)} layer{'s' * (len(values) > 1)} of {kind}"
    title = f"{title}, loss {value:.4g}"
    trainings = None
    if steps:
        if build is None or options is None:
            raise ValueError("steps trains a model of these options: give options and build too.")
        with torch.random.fork_rng():
            trainings = short_trainings(build, options, run, steps)
    return Report(title, value, values, findings, remedies, notes, trainings)
