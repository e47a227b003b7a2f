"""What is registered against what was found, if it fits the model: as words for the command line, and as a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jsonargparse import ArgumentParser
from lightning.fabric.utilities.exceptions import MisconfigurationException

from gnn_depth import registry
from gnn_depth.cli.assemble import CommandLineInterface
from gnn_depth.cli.sections import GIVEN_BY_DATA, expand_config
from gnn_depth.diagnostics.signs import Finding
from gnn_depth.nn.parts import FAILURE_MODES
from gnn_depth.short_names import LISTS
from gnn_depth.training import NodeClassifier

#: Kinds of parts that may be a remedy, in the order in which they are proposed.
KINDS = ("norm", "skip", "init", "layer", "graph_dropout")
SHALLOW = 3  # layers: to see whether a part fits, these are enough


@dataclass(frozen=True)
class Prescription:
    """A part that says it treats some of what was found.

    Attributes:
        kind, name: As it is registered.
        words: What to add to the command line.
        treats: The places of the findings.
        options: Of the model, with this part in place.
    """

    kind: str
    name: str
    words: str
    treats: tuple[int, ...]
    options: Mapping[str, Any]


class Remedies:
    """The registered parts, as changes of a model.

    Args:
        cli: Has the model, its options and its data's shape.
    """

    def __init__(self, cli: CommandLineInterface) -> None:
        self._options: dict[str, Any] = dict(cli.config_dump["model"])
        self._given = {key: cli.model.hparams[key] for key in GIVEN_BY_DATA if key in cli.model.hparams}
        self._seed = cli.config.seed_everything or 0
        self._parser = ArgumentParser(exit_on_error=False)
        self._parser.add_class_arguments(NodeClassifier, "model", sub_configs=True, fail_untyped=False)

    def against(self, findings: Sequence[Finding]) -> list[Prescription]:
        """The parts against what was found, those first that treat most of it."""
        found = []
        for kind in KINDS:
            for name, cls in registry.registered(kind).items():
                treats = tuple(p for p, finding in enumerate(findings) if finding.ailment in getattr(cls, "treats", ()))
                if treats and (prescription := self._prescription(kind, name, cls, treats)):
                    found.append(prescription)
        return sorted(found, key=lambda one: (-len(one.treats), one.treats))

    def build(self, options: Mapping[str, Any]) -> NodeClassifier:
        """A model as a command line with these options would make it.

        Raises:
            ValueError: A part does not fit.
        """
        with torch.random.fork_rng([]):
            torch.manual_seed(self._seed)
            said = {"model": {**expand_config({"model": options})["model"], **self._given}}
            config = self._parser.parse_object(said, defaults=False)  # all is said; to add defaults takes as long again
            model: NodeClassifier = self._parser.instantiate_classes(config).model
        return model

    @property
    def as_it_is(self) -> Mapping[str, Any]:
        """The model's options."""
        return self._options

    def _prescription(self, kind: str, name: str, cls: type, treats: tuple[int, ...]) -> Prescription | None:
        dose = dict(getattr(cls, "remedy_options", {}))
        part = {"name": name, **dose} if dose else name
        there = self._options.get(kind)
        there = [] if there is None else there if isinstance(there, list) else [there]
        there = [one for one in there if _name(one) != "none"]
        if name in map(_name, there):
            return None
        joins = kind in LISTS and bool(there)
        options = {**self._options, kind: [*there, part] if joins else part}
        return (
            Prescription(kind, name, _words(kind, name, dose, joins), treats, options) if self._fits(options) else None
        )

    def _fits(self, options: Mapping[str, Any]) -> bool:
        try:
            self.build({**options, "num_layers": min(SHALLOW, options["num_layers"])})
        except (ValueError, MisconfigurationException):
            return False
        return True


def _name(part: Any) -> str:
    return str(part.get("name", part.get("class_path", ""))) if isinstance(part, dict) else str(part)


def _words(kind: str, name: str, dose: Mapping[str, Any], joins: bool) -> str:
    if not joins:
        return " ".join([f"--model.{kind} {name}", *(f"--model.{kind}.{key} {value}" for key, value in dose.items())])
    said = ", ".join([f"name: {name}", *(f"{key}: {value}" for key, value in dose.items())])
    return f"--model.{kind}+ " + (f"'{{{said}}}'" if dose else name)


def misspelt() -> list[str]:
    """What parts say they treat that is no ailment, in a sentence each."""
    return [
        f"{kind} {name!r}: {registry.unknown('ailment', word, FAILURE_MODES)}"
        for kind in KINDS
        for name, cls in registry.registered(kind).items()
        for word in getattr(cls, "treats", ())
        if word not in FAILURE_MODES
    ]
