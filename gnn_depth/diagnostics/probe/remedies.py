"""Remedies: a table of the parts that help against each failure mode, and their trials."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pydoc import locate
from typing import Any, TypeAlias

from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from gnn_depth import registry
from gnn_depth.diagnostics.probe.findings import CRITERIA, FAILURE_MODES, Finding, find_problems
from gnn_depth.diagnostics.probe.layer_values import LayerValues

# Kinds of parts, in the order in which they are proposed.
KINDS = ("norm", "skip", "init", "layer", "graph_dropout")
LISTS = ("norm",)  # kinds of which a model may have several parts side by side
SHALLOW = 3  # layers of the model that shows if a part fits

Build: TypeAlias = Callable[[Mapping[str, Any]], nn.Module]


@dataclass(frozen=True)
class RemedyPart:
    """A registered part that helps against a failure mode, with the options to use it with."""

    kind: str
    name: str
    options: Mapping[str, object]


#: The parts that help against each failure mode. Plugins add theirs with :func:`add_remedy`.
REMEDIES: dict[str, list[RemedyPart]] = {mode: [] for mode in FAILURE_MODES}


def add_remedy(failure_mode: str, kind: str, name: str, **options: object) -> None:
    """Say that a registered part helps against a failure mode: the probe then proposes it.

    .. code-block:: python

        add_remedy("vanishing_gradients", "skip", "my_skip", scale=0.5)

    Args:
        failure_mode: A key of :data:`gnn_depth.diagnostics.probe.FAILURE_MODES`.
        kind: The kind of the part, such as ``norm``.
        name: The name under which it is registered.
        **options: Options of the part that differ from its defaults.

    Raises:
        ValueError: There is no such failure mode or kind.
    """
    if failure_mode not in FAILURE_MODES:
        raise ValueError(registry.unknown("failure mode", failure_mode, FAILURE_MODES))
    if kind not in KINDS:
        raise ValueError(registry.unknown("kind of a remedy", kind, KINDS))
    others = [part for part in REMEDIES[failure_mode] if (part.kind, part.name) != (kind, name)]
    REMEDIES[failure_mode] = [*others, RemedyPart(kind, name, options)]  # the last word counts


def _add_all(failure_mode: str, **names: str) -> None:
    for kind, of_kind in names.items():
        for name in of_kind.split():
            add_remedy(failure_mode, kind, name)


# Scaled skips hold every signal: at initialisation a layer is nearly the identity.
_SCALED = "gated layer_scale rezero"

add_remedy("non_finite", "norm", "spectral", per_depth=8)
_add_all("non_finite", skip=_SCALED)
_add_all(
    "dying_signal",
    norm="batch graph group layer neighbor node pair pair_si",
    skip=f"initial_residual residual {_SCALED}",
    init="balanced_orthogonal balanced_xavier kaiming identity",
    layer="gcnii",
)
_add_all(
    "equal_rows",
    norm="batch graph group mean neighbor pair pair_si",
    skip=f"initial_residual {_SCALED}",
    layer="gcnii",
)
_add_all(
    "rank_collapse",
    norm="batch graph group mean neighbor pair pair_si",
    skip=f"initial_residual {_SCALED}",
    init="balanced_orthogonal identity",
    layer="gcnii",
)
_add_all("exploding_signal", norm="batch graph layer node pair pair_si", skip=_SCALED)
add_remedy("exploding_signal", "norm", "spectral", per_depth=8)
_add_all(
    "vanishing_gradients",
    norm="layer node pair",
    skip=f"residual {_SCALED}",
    init="balanced_orthogonal balanced_xavier kaiming identity",
)
add_remedy("expanding_gradients", "norm", "spectral", per_depth=8)
_add_all("expanding_gradients", skip=_SCALED)
_add_all("smoothed_gradients", skip=f"residual {_SCALED}")
_add_all("unbounded_attention", norm="lipschitz")
# Mirrored matrices undo the activations between them.
for _mode in ("dying_signal", "rank_collapse", "vanishing_gradients"):
    add_remedy(_mode, "init", "orthogonal", looks_linear=True)
_add_all("imbalance", init="balanced_orthogonal balanced_xavier")


@dataclass(frozen=True)
class Remedy:
    """A part of :data:`REMEDIES` that fits a model and helps against some of the findings.

    Attributes:
        kind, name: The kind and name under which it is registered.
        arguments: Arguments to add to the command line.
        against: Positions of these findings in the list of all findings.
        options: The model's options, with this part in place.
    """

    kind: str
    name: str
    arguments: str
    against: tuple[int, ...]
    options: Mapping[str, object]


@dataclass(frozen=True)
class RemedyProbe:
    """The probe of a model with a remedy applied.

    Attributes:
        arguments: What was added to the command line; nothing for the model as it is.
        layers: The values of its layers.
        findings: Problems found in them.
    """

    arguments: str
    layers: Sequence[LayerValues]
    findings: Sequence[Finding]


def proposed(findings: Sequence[Finding], options: Mapping[str, Any], build: Build) -> list[Remedy]:
    """The parts that fit a model and help against some of the findings, those against most first.

    ``options`` are as in the ``model`` section of a config; ``build`` raises a ValueError if they
    do not fit.

    Raises:
        ValueError: A remedy names a part that is not registered.
    """
    for remedy in chain(*REMEDIES.values()):
        registry.get(remedy.kind, remedy.name)  # an unknown name would never be proposed
    found = []
    for kind in KINDS:
        registered = registry.registered(kind)
        classes = []
        kept = []  # the parts of this kind that the model has
        for present in _present(kind, options):
            classes.append(_class(kind, present))
            if classes[-1] is not registered.get("none"):
                kept.append(present)
        joins = kind in LISTS and bool(kept)
        for name, cls in registered.items():
            against, extra = _entries(kind, name, findings)
            if not against or cls in classes:  # a model that has the part is not helped by it
                continue
            part: Any = {"name": name, **extra} if extra else name
            if joins:
                part = [*kept, part]
            changed = {**options, kind: part}
            # A shallow model fits where a deep one does, and is built quickly.
            depth = min(SHALLOW, options.get("num_layers", SHALLOW))
            try:
                build({**changed, "num_layers": depth})
            except (ValueError, MisconfigurationException):
                continue
            arguments = _arguments(kind, name, extra, joins)
            found.append(Remedy(kind, name, arguments, against, changed))
    found.sort(key=lambda remedy: (-len(remedy.against), remedy.against))
    return found


def _present(kind: str, options: Mapping[str, Any]) -> list[Any]:
    """The parts of a kind that a model has."""
    present = options.get(kind)
    if present is None:
        return []
    return present if isinstance(present, list) else [present]


def _class(kind: str, part: object) -> object:
    """The class that a config names by a registered name or a class path."""
    path = str(part)
    if isinstance(part, Mapping):  # with options
        path = str(part.get("name", part.get("class_path", "")))
    return registry.registered(kind).get(path) or locate(path)


def _entries(
    kind: str, name: str, findings: Sequence[Finding]
) -> tuple[tuple[int, ...], dict[str, object]]:
    """The positions of the findings that a part helps against, and the options that it needs."""
    against: list[int] = []
    options: dict[str, object] = {}
    for position, finding in enumerate(findings):
        for part in REMEDIES[finding.mode]:
            if (part.kind, part.name) == (kind, name):
                against.append(position)
                options |= part.options
    return tuple(against), options


def _arguments(kind: str, name: str, extra: Mapping[str, object], joins: bool) -> str:
    if joins:  # a plus adds to a list, and takes its options in one word
        if not extra:
            return f"--model.{kind}+ {name}"
        fields = "".join(f", {key}: {value}" for key, value in extra.items())
        return f"--model.{kind}+ '{{name: {name}{fields}}}'"
    words = [f"--model.{kind} {name}"]
    words += [f"--model.{kind}.{key} {value}" for key, value in extra.items()]
    return " ".join(words)


def tried(
    remedies: Sequence[Remedy],
    unchanged: RemedyProbe,
    build: Build,
    measure: Callable[[nn.Module], list[LayerValues]],
) -> list[RemedyProbe]:
    """Probe the model with each remedy, sorted by the number of problems left; the unchanged model
    stands first."""
    probes = []
    for remedy in remedies:
        layers = measure(build(remedy.options))
        probes.append(RemedyProbe(remedy.arguments, layers, find_problems(layers)))
    shown = {finding.symbol for finding in unchanged.findings}

    def problems(probe: RemedyProbe) -> tuple[int, float]:
        # Of two that leave equally many problems, the one that comes nearer to solving them.
        excess = 0.0
        for criterion in CRITERIA:
            if criterion.symbol in shown:
                excess += criterion.excess(probe.layers)
        return len(probe.findings), excess

    return [unchanged, *sorted(probes, key=problems)]
