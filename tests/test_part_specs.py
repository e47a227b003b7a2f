"""Classes as text: options from signatures, of built-in parts, plugins and libraries alike."""

from typing import Any, Literal

import gnn_depth.data
import gnn_depth.nn
import gnn_depth.training  # noqa: F401  (all three register parts)
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.parts import Init
from gnn_depth.part_specs import describe, parts_of
from gnn_depth.ranges import FilePath, Probability, Range


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
