"""Remedies tried out: a model with each of them, and one pass of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from gnn_depth.cli.probe.passes import run
from gnn_depth.cli.probe.readings import balanced, of_pass
from gnn_depth.cli.probe.remedies import Prescription, Remedies
from gnn_depth.data.base import NodeBatch
from gnn_depth.diagnostics.prognosis import SIGNS, prognosis
from gnn_depth.diagnostics.reading import Reading
from gnn_depth.diagnostics.signs import Finding, Sign


@dataclass(frozen=True)
class Trial:
    """A model after one pass.

    Attributes:
        words: What was added to the command line; nothing for the model as it is.
        readings: Of its layers.
        findings: What will go wrong with it.
    """

    words: str
    readings: Sequence[Reading]
    findings: Sequence[Finding]


def tried(
    remedies: Remedies, prescriptions: Sequence[Prescription], batch: NodeBatch, readings: Sequence[Reading]
) -> list[Trial]:
    """The model as it is, and then with each remedy: first those with which least goes wrong."""
    trials = [_trial(remedies, one, batch) for one in prescriptions]
    findings = prognosis(readings)
    signs = [sign for sign in SIGNS if any(finding.symbol == sign.symbol for finding in findings)]
    trials.sort(key=lambda trial: (len(trial.findings), sum(sign.excess(trial.readings) for sign in signs)))
    return [Trial("", readings, findings), *trials]


def shown(trials: Sequence[Trial]) -> list[Sign]:
    """The signs by which something goes wrong in any of them."""
    symbols = {finding.symbol for trial in trials for finding in trial.findings}
    return [sign for sign in SIGNS if sign.symbol in symbols]


def _trial(remedies: Remedies, one: Prescription, batch: NodeBatch) -> Trial:
    model = remedies.build(one.options).to(batch.x.device)
    _, layers = run(model, batch)
    readings, _ = balanced(of_pass(layers), model.stack)
    return Trial(one.words, readings, prognosis(readings))
