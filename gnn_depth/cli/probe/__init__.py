"""``gnn-depth probe``: what every layer of a model does before, or after, any training, and what will go wrong."""

import sys
from pathlib import Path
from typing import Any

from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.outputs import write_whole
from gnn_depth.cli.probe import page
from gnn_depth.cli.probe.passes import run
from gnn_depth.cli.probe.readings import balanced, in_full, of_pass
from gnn_depth.cli.probe.remedies import Prescription, Remedies, misspelt
from gnn_depth.cli.probe.trial import tried
from gnn_depth.data.base import NodeBatch
from gnn_depth.data.checks import DataError
from gnn_depth.diagnostics.prognosis import prognosis
from gnn_depth.nn.bounds import why_no_bound
from gnn_depth.training.checkpoints import read_checkpoint


def probe(cli: CommandLineInterface) -> str:
    """The page for the terminal; with ``--html``, one for a browser is written too.

    Raises:
        UsageError: The data is not there, an option does not fit, or the page cannot be written.
    """
    scales = _scales(cli)
    report = _report(cli, scales)
    text = page.in_terminal(report, every=cli.config.layers == "all", styled=sys.stdout.isatty())
    if cli.config.html is None:
        return text
    path = Path(cli.config.html)
    write_whole(path, lambda part: part.write_text(page.in_browser(report), encoding="utf-8"), "--html")
    return f"{text}\n\n{path}"


def _scales(cli: CommandLineInterface) -> list[float]:
    scales = [float(scale) for scale in cli.config.scales]
    for scale in scales:
        if scale <= 0:
            raise UsageError(f"--scales are numbers above 0, not {scale:g}.")
    return scales


def _report(cli: CommandLineInterface, scales: list[float]) -> page.Report:
    model, device = cli.model, cli.trainer.strategy.root_device
    if cli.checkpoint:
        model.load_state_dict(read_checkpoint(cli.checkpoint.path)["state_dict"])
    batch = _first_batch(cli.datamodule).to(device)
    model.to(device)
    loss, layers = run(model, batch)
    model.eval()
    readings, no_law = balanced(in_full(of_pass(layers), layers, scales), model.stack)
    findings = prognosis(readings)
    remedies = Remedies(cli)
    prescriptions: list[Prescription] = remedies.against(findings)
    return page.Report(
        title=_title(cli, loss),
        readings=readings,
        findings=findings,
        prescriptions=prescriptions,
        trials=tried(remedies, prescriptions, batch, readings) if cli.config["try"] else None,
        notes=[*_no_bounds(layers), *([f"no balance: {no_law}."] if no_law else [])],
        complaints=misspelt(),
    )


def _first_batch(data: Any) -> NodeBatch:
    try:
        data.prepare_data()
        data.setup("fit")
        batch: NodeBatch = next(iter(data.train_dataloader()))
    except DataError as error:
        raise UsageError(str(error)) from error
    return batch


def _title(cli: CommandLineInterface, loss: float) -> str:
    layers, data = cli.model.stack.layers, cli.datamodule
    name = getattr(data, "name", None) or type(data).__name__
    what = f"{len(layers)} layer{'s' * (len(layers) > 1)} of {type(layers[0]).__name__} on {name}"
    return f"{what}, {'at ' + str(cli.checkpoint.path) if cli.checkpoint else 'at initialisation'}, loss {loss:.4g}"


def _no_bounds(layers: Any) -> list[str]:
    """Why there is no bound, for each reason once."""
    reasons: dict[str, list[int]] = {}
    for layer in layers:
        if layer.call is not None and layer.call.bound is None:
            reasons.setdefault(why_no_bound(layer.call.module), []).append(layer.number)
    return [
        f"no bound of layer{f's {own[0]} to {own[-1]}' if len(own) > 1 else f' {own[0]}'}: {reason}."
        for reason, own in reasons.items()
    ]
