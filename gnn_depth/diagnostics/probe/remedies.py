"""Remedies: find registered parts that declare to treat a failure mode, and try them in the model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pydoc import locate
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from gnn_depth import registry
from gnn_depth.diagnostics.probe.findings import CRITERIA, Finding, find_problems
from gnn_depth.diagnostics.probe.readings import Reading
from gnn_depth.nn.parts import FAILURE_MODES

KINDS = ("norm", "skip", "init", "layer", "graph_dropout")  # kinds of parts, in the order in which they are proposed
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


class Remedies:
    """Proposes changes of a model.

    Args:
        options: The model's options, as in the ``model`` section of a config.
        build: Builds a model with other options, and raises a ValueError if they do not fit.
    """

    def __init__(self, options: Mapping[str, Any], build: Callable[[Mapping[str, Any]], nn.Module]) -> None:
        self._options = options
        self._build = build

    def against(self, findings: Sequence[Finding]) -> list[Remedy]:
        """The parts that fit the model and treat some of the findings, sorted by the number treated."""
        found = []
        for kind in KINDS:
            for name, cls in registry.registered(kind).items():
                treats = tuple(p for p, finding in enumerate(findings) if finding.mode in getattr(cls, "treats", ()))
                if treats and (remedy := self._remedy(kind, name, cls, treats)):
                    found.append(remedy)
        return sorted(found, key=lambda one: (-len(one.treats), one.treats))

    def tried(
        self, remedies: Sequence[Remedy], as_it_is: Trial, read: Callable[[nn.Module], list[Reading]]
    ) -> list[Trial]:
        """Probe the unchanged model and the model with each remedy, sorted by the number of problems left."""
        trials = []
        for remedy in remedies:
            readings = read(self._build(remedy.options))
            trials.append(Trial(remedy.arguments, readings, find_problems(readings)))
        shown = {finding.symbol for finding in as_it_is.findings}
        criteria = [criterion for criterion in CRITERIA if criterion.symbol in shown]
        trials.sort(key=lambda trial: (len(trial.findings), sum(one.excess(trial.readings) for one in criteria)))
        return [as_it_is, *trials]

    def _remedy(self, kind: str, name: str, cls: type, treats: tuple[int, ...]) -> Remedy | None:
        there = self._options.get(kind)
        there = [] if there is None else there if isinstance(there, list) else [there]
        if cls in [_class(kind, part) for part in there]:
            return None
        there = [part for part in there if _class(kind, part) is not registry.registered(kind).get("none")]
        extra = dict(getattr(cls, "remedy_options", {}))
        part = {"name": name, **extra} if extra else name
        joins = kind in LISTS and bool(there)
        options = {**self._options, kind: [*there, part] if joins else part}
        fits = self._fits(options)
        return Remedy(kind, name, _arguments(kind, name, extra, joins), treats, options) if fits else None

    def _fits(self, options: Mapping[str, Any]) -> bool:
        try:
            self._build({**options, "num_layers": min(SHALLOW, options.get("num_layers", SHALLOW))})
        except (ValueError, MisconfigurationException):
            return False
        return True


def _class(kind: str, part: Any) -> object:
    """The class that a config names by a registered name or a class path."""
    path = str(part.get("name", part.get("class_path", ""))) if isinstance(part, Mapping) else str(part)
    return registry.registered(kind).get(path) or locate(path)


def _arguments(kind: str, name: str, extra: Mapping[str, Any], joins: bool) -> str:
    if not joins:
        return " ".join([f"--model.{kind} {name}", *(f"--model.{kind}.{key} {value}" for key, value in extra.items())])
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
