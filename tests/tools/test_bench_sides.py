"""Both sides of a case are the same model."""

import pytest
import torch

from gnn_depth.graph import Graph
from tools.bench import sides
from tools.bench.cases import CASES, Case
from tools.bench.graphs import Data

FAMILIES = [
    Case("", "gat-lip", "cora", 3, 1),
    Case("", "gat-lip", "cora", 3, 2),
    Case("", "gatv2", "cora", 3),
    Case("", "gcn", "cora", 3),
]


@pytest.fixture
def data(graph: Graph) -> Data:
    y = torch.arange(9) % 3
    return Data(torch.randn(9, 5), y, graph, torch.arange(4), 3, "generated")


@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: f"{case.family}-{case.heads}")
def test_with_the_same_weights_both_sides_give_the_same_scores(case, data):
    ours, peer = sides.ours(case, data, "off"), sides.peer(case, data, data.graph.edge_index)
    sides.share_weights(ours.model, peer.model)
    assert sides.check_equal(ours.scores(), peer.scores()) < 1e-5
    assert ours.path == "eager"


def test_a_step_changes_the_weights(data):
    side = sides.ours(FAMILIES[0], data, "off")
    before = side.model.decoder.weight.clone()
    side()
    assert not torch.equal(side.model.decoder.weight, before)


def test_different_scores_are_an_error():
    with pytest.raises(ValueError, match=r"the sides differ by 1\.0e-02"):
        sides.check_equal(torch.ones(3), torch.tensor([1.0, 1.0, 1.01]))
    with pytest.raises(ValueError, match="differ by nan"):
        sides.check_equal(torch.ones(3), torch.full((3,), torch.nan))


def test_a_parameter_without_a_counterpart_is_an_error(data):
    gcn, gatv2 = (sides.ours(CASES[name], data, "off").model for name in ("gcn-64-cora", "gatv2-10-cora"))
    with pytest.raises(ValueError, match="no counterpart"):
        sides.share_weights(gcn, gatv2)
