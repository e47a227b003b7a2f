"""Classes as text: options from signatures, of built-in parts, plugins and libraries alike."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from torch import nn

import gnn_depth.data
import gnn_depth.nn
import gnn_depth.training  # noqa: F401  (all three register parts)
from gnn_depth import registry
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.parts import Init
from gnn_depth.part_specs import GIVEN, LIBRARIES, choices, describe, parts_of, type_name
from gnn_depth.ranges import FilePath, Probability, Range


def test_what_the_stack_gives_is_no_option():
    options = describe("norm", "lipschitz", LipschitzNorm).options
    assert list(options) == ["scale", "form", "per_head"]
    assert "in_channels" not in describe("layer", "gat", GAT).options
    assert set(GIVEN) == {*registry.KINDS, *LIBRARIES, "module"}


def test_an_option_has_type_range_default_and_choices_of_its_signature():
    class Own(Init):
        def __init__(
            self,
            base: Init,
            share: "Probability" = 0.5,
            form: Literal["a", "b"] = "a",
            file: FilePath | None = None,
            free=3,
        ) -> None: ...

    options = describe("init", "own", Own).options
    assert options["base"].kind == "init"
    assert options["base"].is_required
    assert (options["share"].type, options["share"].range) == ("float", Range(0, 1))
    assert options["form"].choices == ["a", "b"]
    assert [name for name, option in options.items() if option.is_path] == ["file"]
    assert (options["free"].type, options["free"].default) == ("", 3)


def test_a_class_that_passes_arguments_on_has_the_options_of_the_next_one():
    class Wide(GAT):
        def __init__(self, *args: Any, wide: bool = True, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    own, base = describe("layer", "wide", Wide), describe("layer", "gat", GAT)
    assert {*own.options} == {"wide", *base.options}
    assert not own.takes_any
    # Lightning's schedule passes everything but the metric on to torch's.
    plateau = parts_of("scheduler")["ReduceLROnPlateau"].options
    assert plateau["monitor"].is_required
    assert "optimizer" not in plateau
    assert plateau["factor"].default == 0.1


def test_an_annotation_that_cannot_be_resolved_hides_no_other():
    class Own(nn.Module):
        def __init__(self, one: "NoSuchClass" = None, two: "Probability" = 0.5) -> None: ...

    assert describe("norm", "own", Own).options["two"].range == Range(0, 1)


@pytest.mark.parametrize(
    ("annotation", "text", "values"),
    [
        (list[Literal["a", "b"]] | None, "list[a | b] | None", ["a", "b"]),
        (bool, "bool", ["true", "false"]),
        (Literal[True, "all"], "true | all", ["true", "all"]),
        (Callable[[int], registry.RegistryError], "Callable[[int], RegistryError]", []),
        ("torch.Tensor", "Tensor", []),
    ],
)
def test_types_are_shown_without_modules_and_literals_by_their_values(
    annotation: Any, text: str, values: list[str]
):
    assert type_name(annotation) == text
    assert list(choices(annotation)) == values
