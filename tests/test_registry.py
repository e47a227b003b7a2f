"""The table of named parts."""

import inspect

import pytest

from gnn_depth import registry
from gnn_depth.registry import RegistryError, register


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_TABLE", {kind: {} for kind in registry.KINDS})
    register("norm", "pair")(PairNorm)
    register("norm", "layer")(LayerNorm)


class PairNorm:
    """Hold distances.

    More.
    """


class LayerNorm:
    """Normalise rows."""


@pytest.mark.parametrize("name", ["pair", "PairNorm"])
def test_a_part_is_found_by_its_name_and_its_class_name(name: str):
    assert registry.get("norm", name) is PairNorm


@pytest.mark.parametrize("word", ["piar", "Pair", "PAIR", "pairnorm", "PairNrom"])
def test_a_wrong_name_is_answered_with_the_near_miss_and_the_choices(word: str):
    with pytest.raises(RegistryError, match=r"Did you mean '[Pp]air(Norm)?'\? Available: layer, pair\."):
        registry.get("norm", word)


def test_a_name_like_no_other_is_answered_with_the_choices_alone():
    with pytest.raises(RegistryError) as caught:
        registry.get("norm", "zzz")
    assert str(caught.value) == "unknown norm 'zzz'. Available: layer, pair."


def test_an_unknown_kind_is_refused():
    with pytest.raises(RegistryError, match=r"unknown kind 'nrom'\. Did you mean 'norm'\?"):
        register("nrom", "pair")


def test_a_name_cannot_be_taken_from_another_class():
    with pytest.raises(RegistryError, match=r"norm 'pair' is already .*PairNorm; .*LayerNorm needs another name"):
        register("norm", "pair")(LayerNorm)
    assert registry.get("norm", "pair") is PairNorm


def test_a_class_that_is_defined_again_replaces_itself():
    again = type("PairNorm", (), {"__module__": PairNorm.__module__, "__qualname__": PairNorm.__qualname__})
    register("norm", "pair")(again)
    assert registry.get("norm", "pair") is again


def test_kinds_do_not_share_names():
    register("layer", "pair")(LayerNorm)
    assert registry.get("layer", "pair") is LayerNorm
    assert registry.get("norm", "pair") is PairNorm


def test_registered_parts_come_in_alphabetical_order():
    assert list(registry.registered("norm")) == ["layer", "pair"]


def test_the_registered_name_of_a_class_is_found_again():
    assert registry.name_of(PairNorm) == ("norm", "pair")
    assert registry.name_of(int) is None


def test_the_summary_is_the_first_line_of_the_docstring():
    assert registry.summary(PairNorm) == "Hold distances."


def test_the_registry_imports_nothing_of_the_package():
    assert "gnn_depth" not in "".join(
        line for line in inspect.getsource(registry).splitlines() if line.startswith(("import ", "from "))
    )
