from functools import partial

import pytest
import torch

from gnn_depth import registry
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.graph_dropouts import DropEdge
from gnn_depth.nn.inits import Balanced, Xavier
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm, PairNorm
from gnn_depth.nn.skips import Residual
from gnn_depth.training import NodeClassifier

BY_NAME = {
    "layer": {"name": "gat", "heads": 2},
    "norm": ["layer", {"name": "lipschitz", "form": "released"}, {"name": "pair", "scale": 2.0}],
    "skip": "residual",
    "graph_dropout": {"name": "drop_edge", "p": 0.5},
    "init": {"name": "balanced", "base": "xavier"},
}
BY_CLASS = {
    "layer": partial(GAT, heads=2),
    "norm": [LayerNorm, partial(LipschitzNorm, form="released"), partial(PairNorm, scale=2.0)],
    "skip": Residual,
    "graph_dropout": DropEdge(0.5),
    "init": Balanced(Xavier()),
}


def drawn(make, parts):
    torch.manual_seed(0)
    model = make(8, 4, num_layers=3, hidden_channels=6, **parts)
    return repr(model), model.state_dict()


@pytest.mark.parametrize("make", [DeepGNN, NodeClassifier])
def test_parts_by_name_are_the_parts_themselves(make):
    (text, weights), (expected_text, expected) = drawn(make, BY_NAME), drawn(make, BY_CLASS)
    assert text == expected_text
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert (
        NodeClassifier(8, 4, **BY_NAME).hparams["layer"] == BY_NAME["layer"]
    )  # so a checkpoint can be loaded


@pytest.mark.parametrize("norm", ["pair", {"name": "pair"}, PairNorm, [PairNorm], ("pair",)])
def test_a_single_norm_needs_no_list(norm):
    assert drawn(DeepGNN, {"norm": norm})[0] == drawn(DeepGNN, {"norm": [PairNorm]})[0]


@pytest.mark.parametrize(
    ("parts", "wrong", "answer"),
    [
        ({"layer": "gatt"}, "'gatt'", "Did you mean 'gat'"),
        ({"norm": ["layer", "pairs"]}, "'pairs'", "Did you mean 'pair'"),
        ({"layer": {"name": "gat", "head": 8}}, "'head'", "Did you mean 'heads'"),
        ({"init": {"name": "balanced", "base": "xavie"}}, "'xavie'", "Did you mean 'xavier'"),
        ({"skip": None}, "skip", "residual"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(parts, wrong, answer):
    with pytest.raises(registry.RegistryError, match=wrong) as error:
        DeepGNN(8, 4, **parts)
    assert answer in str(error.value)


def test_the_part_of_an_installed_plugin_is_found(monkeypatch):
    class OfPlugin(PairNorm):
        pass

    table = {kind: dict(names) for kind, names in registry._TABLE.items()}
    monkeypatch.setattr(registry, "_TABLE", table)
    monkeypatch.setattr(
        registry, "load_entry_points", lambda: table["norm"].setdefault("of_plugin", OfPlugin)
    )
    monkeypatch.setitem(globals(), "OfPlugin", OfPlugin)
    OfPlugin.__qualname__ = "OfPlugin"
    assert isinstance(DeepGNN(8, 4, norm="of_plugin").norms[0][0], OfPlugin)
