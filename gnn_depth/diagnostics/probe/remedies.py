"""Remedies: find registered parts that declare to treat a failure mode, and try them in the
model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pydoc import locate
from typing import Any, TypeAlias

from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from gnn_depth import registry
from gnn_depth.diagnostics.probe.findings import CRITERIA, Finding, find_problems
from gnn_depth.diagnostics.probe.readings import Reading
from gnn_depth.nn.parts import FAILURE_MODES

KINDS = (
    "norm",
    "skip",
    "init",
    "layer",
    "graph_dropout",
)  # kinds of parts, in the order in which they are proposed
LISTS = ("norm",)  # kinds of which a model may have several parts side by side
SHALLOW = 3  # layers of the model that shows if a part fits


@dataclass(frozen=True)
class Remedy:
    """A part that is declared to treat some of the findings.

    Attributes:
        kind, name: The kind and name under which it is registered.
        arguments: Arguments to add to the command line.
        treats: Positions of these findings in the list of all findings.
        options: The model's options, with this part in place.
    """

    kind: str
    name: str
    arguments: str
    treats: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """The probe of a model with a remedy applied.

    Attributes:
        arguments: What was added to the command line; nothing for the model as it is.
        readings: Readings of its layers.
        findings: Problems found in them.
    """

    arguments: str
    readings: Sequence[Reading]
    findings: Sequence[Finding]


Build: TypeAlias = Callable[[Mapping[str, Any]], nn.Module]


def proposed(findings: Sequence[Finding], options: Mapping[str, Any], build: Build) -> list[Remedy]:
    """The parts that fit a model and treat some of the findings, sorted by the number treated.

    ``options`` are as in the ``model`` section of a config; ``build`` raises a ValueError if they
    do not fit.
    """
    found = []
    for kind in KINDS:
        parts = registry.registered(kind)
        there = options.get(kind)
        there = [] if there is None else there if isinstance(there, list) else [there]
        classes = [_class(kind, part) for part in there]
        there = [
            part for part, cls in zip(there, classes, strict=True) if cls is not parts.get("none")
        ]
        joins = kind in LISTS and bool(there)
        for name, cls in parts.items():
            treats = tuple(
                p
                for p, finding in enumerate(findings)
                if finding.mode in getattr(cls, "treats", ())
            )
            if not treats or cls in classes:
                continue
            extra = dict(getattr(cls, "remedy_options", {}))
            part = {"name": name, **extra} if extra else name
            changed = {**options, kind: [*there, part] if joins else part}
            try:
                build({**changed, "num_layers": min(SHALLOW, options.get("num_layers", SHALLOW))})
            except (ValueError, MisconfigurationException):
                continue
            found.append(Remedy(kind, name, _arguments(kind, name, extra, joins), treats, changed))
    return sorted(found, key=lambda one: (-len(one.treats), one.treats))


def tried(
    remedies: Sequence[Remedy],
    as_it_is: Trial,
    build: Build,
    read: Callable[[nn.Module], list[Reading]],
) -> list[Trial]:
    """Probe the unchanged model and the model with each remedy, sorted by the number of problems
    left."""
    trials = []
    for remedy in remedies:
        readings = read(build(remedy.options))
        trials.append(Trial(remedy.arguments, readings, find_problems(readings)))
    shown = {finding.symbol for finding in as_it_is.findings}
    criteria = [criterion for criterion in CRITERIA if criterion.symbol in shown]
    trials.sort(
        key=lambda trial: (len(trial.findings), sum(one.excess(trial.readings) for one in criteria))
    )
    return [as_it_is, *trials]


def _class(kind: str, part: Any) -> object:
    """The class that a config names by a registered name or a class path."""
    path = (
        str(part.get("name", part.get("class_path", "")))
        if isinstance(part, Mapping)
        else str(part)
    )
    return registry.registered(kind).get(path) or locate(path)


def _arguments(kind: str, name: str, extra: Mapping[str, Any], joins: bool) -> str:
    if not joins:
        return " ".join(
            [
                f"--model.{kind} {name}",
                *(f"--model.{kind}.{key} {value}" for key, value in extra.items()),
            ]
        )
    fields = ", ".join([f"name: {name}", *(f"{key}: {value}" for key, value in extra.items())])
    return f"--model.{kind}+ " + (f"'{{{fields}}}'" if extra else name)


def unknown_failure_modes() -> list[str]:
    """A note for each registered part that declares to treat an unknown failure mode."""
    return [
        f"{kind} {name!r}: {registry.unknown('failure mode', word, FAILURE_MODES)}"
        for kind in KINDS
        for name, cls in registry.registered(kind).items()
        for word in getattr(cls, "treats", ())
        if word not in FAILURE_MODES
    ]
