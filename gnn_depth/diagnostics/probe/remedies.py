"""Remedies: a table of the parts that help against each failure mode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from lightning.fabric.utilities.exceptions import MisconfigurationException
from torch import nn

from gnn_depth import builder, registry
from gnn_depth.diagnostics.probe.findings import FAILURE_MODES, Finding
from gnn_depth.part_specs import items_of

# Kinds of parts, in the order in which they are proposed.
KINDS = ("norm", "skip", "init", "layer", "graph_dropout")
SHALLOW = 3  # layers of the model that shows if a part fits

Build: TypeAlias = Callable[[Mapping[str, Any]], nn.Module]


#: The registered parts that help against each failure mode, by kind and name, with the options to
#: use them with. Plugins add theirs with :func:`add_remedy`.
REMEDIES: dict[str, dict[tuple[str, str], dict[str, object]]] = {mode: {} for mode in FAILURE_MODES}


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
    REMEDIES[failure_mode][kind, name] = options  # the last word counts


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
    "smoothed",
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
_add_all("stalled", norm="layer node pair", skip=f"residual {_SCALED}")
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
    """A part that fits a model and helps against some of its findings.

    Attributes:
        arguments: What to add to the command line.
        against: Positions of these findings in the list of all findings.
    """

    arguments: str
    against: tuple[int, ...]


def proposed(findings: Sequence[Finding], options: Mapping[str, Any], build: Build) -> list[Remedy]:
    """Parts that fit a model and address some of its findings; those that address most come
    first.

    ``options`` are as in the ``model`` section of a config; ``build`` raises a ValueError if they
    do not fit.

    Raises:
        ValueError: A remedy names a part that is not registered.
    """
    for kind, name in chain(*REMEDIES.values()):
        builder.LIVE.find(kind, name)  # an unknown name would never be proposed
    found = []
    for kind in KINDS:
        present = items_of(options.get(kind) or [])
        names = [choice.part.name for choice in builder.select(kind, present, is_list=True)]
        kept = [value for value, name in zip(present, names, strict=True) if name != "none"]
        # A model may have several norms side by side.
        joins = kind in builder.LISTS and bool(kept)
        for name in registry.registered(kind):
            # The findings that it helps against, and the options that it needs.
            against: list[int] = []
            given: dict[str, object] = {}
            for position, finding in enumerate(findings):
                needed = REMEDIES[finding.mode].get((kind, name))
                if needed is not None:
                    against.append(position)
                    given |= needed
            if not against or name in names:  # a model that has the part is not helped by it
                continue
            part: Any = {"name": name, **given}
            if joins:
                part = [*kept, part]
            # A shallow model fits where a deep one does, and is built quickly.
            depth = min(SHALLOW, options.get("num_layers", SHALLOW))
            try:
                build({**options, kind: part, "num_layers": depth})
            except (ValueError, MisconfigurationException):
                continue
            words = [f"--model.{kind}{'+' * joins} {name}"]
            words += [f"--model.{kind}.{key} {value}" for key, value in given.items()]
            found.append(Remedy(" ".join(words), tuple(against)))
    found.sort(key=lambda remedy: (-len(remedy.against), remedy.against))
    return found
