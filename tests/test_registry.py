"""The table of named parts."""

import pytest

from gnn_depth import registry
from gnn_depth.registry import RegistryError, register


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_TABLE", {kind: {} for kind in registry.KINDS})
    register("norm", "pair")(PairNorm)
    register("norm", "layer")(LayerNorm)


class PairNorm:
    """Hold distances."""


class LayerNorm:
    """Normalise rows."""


def test_an_unknown_kind_is_refused():
    with pytest.raises(RegistryError, match=r"'nrom'\. Did you mean 'norm'"):
        register("nrom", "pair")


def test_a_name_cannot_be_taken_from_another_class_of_its_kind():
    with pytest.raises(RegistryError, match=r"'pair' is already .*PairNorm; .*LayerNorm"):
        register("norm", "pair")(LayerNorm)
    assert registry.get("norm", "pair") is PairNorm
    register("layer", "pair")(LayerNorm)
    assert registry.get("layer", "pair") is LayerNorm


def test_a_class_that_is_defined_again_replaces_itself():
    again = type(
        "PairNorm", (), {"__module__": PairNorm.__module__, "__qualname__": PairNorm.__qualname__}
    )
    register("norm", "pair")(again)
    assert registry.get("norm", "pair") is again
