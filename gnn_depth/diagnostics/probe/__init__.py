"""Probe a model: measure every layer in one forward and backward pass, and report problems and remedies.

``print(probe(model, batch))`` needs no training, and leaves the model as it was.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from gnn_depth.diagnostics.probe.findings import Finding, find_problems
from gnn_depth.diagnostics.probe.readings import Reading, node_loss, read
from gnn_depth.diagnostics.probe.remedies import Remedies, Remedy, Trial, unknown_failure_modes
from gnn_depth.diagnostics.probe.report import Report

__all__ = ["Finding", "Reading", "Remedy", "Report", "Trial", "probe"]


def probe(
    model: nn.Module,
    batch: Any,
    *,
    scales: Sequence[float] = (),
    layers: str = "stack.blocks.*.layer",
    stack: str = "stack",
    loss: Callable[[nn.Module, Any], Tensor] = node_loss,
    title: str | None = None,
    options: Mapping[str, Any] | None = None,
    build: Callable[[Mapping[str, Any]], nn.Module] | None = None,
    try_remedies: bool = False,
) -> Report:
    """Measure every layer of a model in one pass without dropout, and report the problems found.

    The model is as before afterwards: its modes, gradients, buffers and the random numbers.

    Args:
        model: The model, at initialisation or trained, on the device of the batch.
        batch: The batch that it is called with.
        scales: Factors of each layer's input, at which its Lipschitz constant is measured too.
        layers: Names of the layers in the model; ``*`` matches any characters but a dot.
        stack: Name of the module with ``links()`` and ``why_no_law()``, for the balance of its neurons; a model without
            one is probed without balance.
        loss: Gives the loss of a model on a batch; by default the cross entropy of ``batch.y`` on ``batch.train_mask``.
        title: Heading of the report.
        options: The model's options, as in the ``model`` section of a config.
        build: Builds a model with other options, and raises a ValueError if they do not fit. With it the report
            proposes remedies: registered parts that declare that they treat what was found.
        try_remedies: Probe a model with each remedy too.

    Returns:
        The report: print it, read its ``findings``, or write a page with ``html(path)``.

    Raises:
        ValueError: A scale is not positive.
        MisconfigurationException: No module matches ``layers``.
    """
    for scale in scales:
        if not scale > 0:
            raise ValueError(f"scales must be numbers above 0, not {scale:g}.")

    def of(other: nn.Module, full: bool = False) -> tuple[float, list[Reading], list[str]]:
        return read(other, batch, layers, stack, loss, scales if full else None)

    value, readings, notes = of(model, full=True)
    findings = find_problems(readings)
    remedies: list[Remedy] | None = None
    trials: list[Trial] | None = None
    if build is not None:
        proposals = Remedies(options or {}, build)
        remedies = proposals.against(findings)
        if try_remedies:
            trials = proposals.tried(remedies, Trial("", readings, findings), lambda other: of(other)[1])
        notes += unknown_failure_modes()
    kind = readings[0].layer if readings else "?"
    heading = title or f"{len(readings)} layer{'s' * (len(readings) > 1)} of {kind}"
    return Report(f"{heading}, loss {value:.4g}", value, readings, findings, remedies, trials, notes)
