"""The model of a config: its options, and how they and the data become a model."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from gnn_depth.builder import (
    LIVE,
    Chosen,
    PartError,
    check_complete,
    with_options,
    written_options,
)
from gnn_depth.nn.stack import DeepGNN
from gnn_depth.short_names import GIVEN_BY_DATA, SECTIONS, Option, PartSpec, meanings, options_of
from gnn_depth.training.module import NodeClassifier


def build_model(options: Mapping[str, Any], data: Any) -> NodeClassifier:
    """Build the model of a config.

    Args:
        options: The section ``model``: parts by name, as a config writes them, or as objects.
        data: The data set, whose numbers of features and classes and task are read.

    Raises:
        PartError: An option does not exist or does not fit.
        ValueError: The options do not go together.
    """
    for key in options:
        if key in GIVEN_BY_DATA:
            message = f"'model.{key}' is taken from the data and cannot be set."
            raise PartError(message, ("model", key))
    part = PartSpec("section", "model", "model", options=model_options())
    chosen = with_options(Chosen(part, {}), options, LIVE, ("model",))
    check_complete(chosen, ("model",))
    return NodeClassifier(**known_to_model(data), **written_options(part.options, chosen.options))


def known_to_model(data: Any) -> dict[str, Any]:
    """The options of the model that a data set determines."""
    return {option: getattr(data, attribute) for option, attribute in GIVEN_BY_DATA.items()}


@cache
def model_options() -> dict[str, Option]:
    """The options of the section ``model``, by name."""
    own = options_of(NodeClassifier)[0]
    about = meanings(DeepGNN.__doc__) | meanings(NodeClassifier.__doc__)
    found = {}
    for name, option in {**own, **options_of(DeepGNN)[0], **own}.items():
        if name not in GIVEN_BY_DATA and name != "out_channels":
            kind = SECTIONS.get(f"model.{name}")
            found[name] = replace(option, kind=kind, about=about.get(name, ""))
    return found
