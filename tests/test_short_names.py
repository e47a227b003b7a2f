"""Translating between short names and class paths."""

from typing import Any

import pytest

import gnn_depth.data
import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth import registry
from gnn_depth.nn.inits import Xavier
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LipschitzNorm
from gnn_depth.nn.parts import Init
from gnn_depth.short_names import (
    GIVEN,
    LIBRARIES,
    Names,
    PartError,
    contract,
    describe,
    imported_parts,
)


def expand(kind: str, value: Any, **more: Any) -> Any:
    """Expand by what is imported."""
    return Names(imported_parts()).expand(kind, value, **more)


def one(kind: str, value: Any) -> Any:
    """Expand a part; a norm out of its list."""
    expanded = expand(kind, value)
    return expanded[0] if kind == "norm" else expanded


class Wrapped(Init):
    """An init around other inits.

    Args:
        base: The inner one.
        more: Others.
    """

    def __init__(self, base: Init, more: list[Init] = [], name: str = "") -> None:  # noqa: B006
        self.base = base

    def draw(self, stack: Any) -> None: ...


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._TABLE["init"], "wrapped", Wrapped)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_part_expands_to_its_class_and_contracts_to_its_name(kind: str):
    for name, cls in registry.registered(kind).items():
        part = describe(kind, name, cls)
        given = {
            key: value
            for key, value in part.defaults.items()
            if isinstance(value, int | float | str)
        }
        expanded = one(kind, {"class_path": name, "init_args": given})
        assert expanded["class_path"] == registry.import_path(cls)
        assert expanded["init_args"] == {**expanded["init_args"], **given}
        assert set(expanded["init_args"]) >= set(part.defaults), (
            "options of another part could show through"
        )
        short = contract(kind, expanded)
        assert one(kind, short) == expanded
        if kind != "data":
            assert (short if isinstance(short, str) else short["name"]) == name


def test_what_the_stack_gives_is_no_option():
    assert list(describe("norm", "lipschitz", LipschitzNorm).options) == [
        "scale",
        "form",
        "per_head",
    ]
    assert "in_channels" not in describe("layer", "gat", GAT).options
    assert set(GIVEN) == {*registry.KINDS, *LIBRARIES}
    with pytest.raises(PartError, match="has no option 'heads'"):
        expand("norm", {"name": "lipschitz", "heads": 2})


@pytest.mark.parametrize(
    ("kind", "value", "where", "message"),
    [
        (
            "norm",
            ["pair", {"name": "lipschitz", "froom": 1}],
            (1, "froom"),
            "Did you mean 'form'? Accepted: scale,",
        ),
        (
            "layer",
            {"class_path": "gcn", "init_args": {"heads": 1}},
            ("init_args", "heads"),
            "layer 'gcn' has no option",
        ),
        ("norm", [["pair"]], (0,), "norm must be given by name, not as ['pair']."),
        ("layer", {"name": 3}, (), "the name of a layer must be text, not 3."),
        (
            "data",
            {"class_path": "Planetoid", "init_args": {"nmae": 1}},
            ("init_args", "nmae"),
            "Did you mean 'name'?",
        ),
    ],
)
def test_what_does_not_exist_is_answered_with_place_near_miss_and_choices(
    kind: str, value: Any, where: tuple, message: str
):
    with pytest.raises(PartError) as caught:
        expand(kind, value)
    assert message in str(caught.value)
    assert caught.value.where == where


def test_options_without_a_name_change_the_part_that_is_there_and_no_other():
    gat = expand("layer", {"name": "gat", "heads": 8, "bias": False})
    assert expand("layer", {"heads": 2}, current=gat)["init_args"] == gat["init_args"] | {
        "heads": 2
    }
    assert expand("layer", "gat", current=gat)["init_args"] == expand("layer", "gat")["init_args"]
    assert expand("layer", {"heads": 8}) == {"heads": 8}
    assert expand("data", {"name": "Cora"}) == {"name": "Cora"}
    with pytest.raises(PartError, match="has no option 'hads'"):
        expand("layer", {"hads": 2}, current=gat)


def test_a_data_set_keeps_its_own_argument_called_name():
    expanded = expand("data", {"class_path": "Planetoid", "init_args": {"name": "Cora"}})
    assert expanded["init_args"]["name"] == "Cora"
    assert contract("data", expanded)["class_path"] == "Planetoid"
    assert contract("data", expanded)["init_args"]["name"] == "Cora"


@pytest.mark.usefixtures("wrapped")
def test_parts_inside_parts_have_short_names_too():
    written = {
        "name": "wrapped",
        "base": {"name": "xavier", "gain": 2.0},
        "more": ["xavier", "default"],
    }
    expanded = expand("init", written)
    inner = expanded["init_args"]
    assert inner["base"]["class_path"] == registry.import_path(Xavier)
    assert inner["base"]["init_args"] == {"distribution": "normal", "gain": 2.0}
    assert [spec["class_path"].rpartition(".")[2] for spec in inner["more"]] == [
        "Xavier",
        "DefaultInit",
    ]
    assert expand("init", contract("init", expanded)) == expanded
    with pytest.raises(PartError, match="Did you mean 'xavier'") as caught:
        expand("init", {"name": "wrapped", "base": "xaver"})
    assert caught.value.where == ("base",)


@pytest.mark.usefixtures("wrapped")
def test_a_part_with_an_argument_called_name_is_printed_with_its_class_path():
    expanded = expand(
        "init", {"class_path": "wrapped", "init_args": {"base": "default", "name": "x"}}
    )
    contracted = contract("init", expanded)
    assert contracted["class_path"] == registry.import_path(Wrapped)
    assert contracted["init_args"]["base"] == "default"
