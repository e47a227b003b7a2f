"""Both sides of a case are the same model."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch

from gnn_depth.graph import Graph
from tools.bench import sides
from tools.bench.cases import CASES, Case
from tools.bench.graphs import Data, load

FAMILIES = [
    Case("", "gat-lip", "cora", 3, 1),
    Case("", "gat-lip", "cora", 3, 2),
    Case("", "gt-lip", "cora", 3, 2),
    Case("", "gatv2", "cora", 3),
    Case("", "gcn", "cora", 3),
]
TREES = Case("", "trees", "trees-3", 4, 4, width=8)


@pytest.fixture
def data(graph: Graph) -> Data:
    y = torch.arange(9) % 3
    return Data(torch.randn(9, 5), y, graph, torch.arange(4), 3, "generated")


@pytest.fixture(scope="module")
def trees() -> Data:
    return load("trees-3", None)


def gradients(ours: sides.Side, peer: sides.Side) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all parameters after a step in evaluation mode, ours in the order of the peer's."""
    for side in (ours, peer):
        side.model.eval()
        side()
        for parameter in side.model.parameters():
            parameter.data = parameter.grad
    expected = torch.cat([parameter.data.flatten().clone() for parameter in peer.model.parameters()])
    sides.share_weights(ours.model, peer.model)
    return torch.cat([parameter.data.flatten() for parameter in peer.model.parameters()]), expected


@pytest.mark.parametrize("case", [*FAMILIES, TREES], ids=lambda case: f"{case.family}-{case.heads}")
def test_with_the_same_weights_both_sides_have_the_same_scores_and_gradients(case, data, trees):
    given = trees if case is TREES else data
    ours, peer = sides.ours(case, given, "off"), sides.peer(case, given)
    sides.share_weights(ours.model, peer.model)
    assert sides.check_equal(ours.scores(), peer.scores()) < 1e-5
    assert ours.path == "eager"
    mine, theirs = gradients(ours, peer)
    assert (mine - theirs).norm() < 1e-4 * theirs.norm()


def test_a_gcn_of_sparse_products_is_the_same_model_where_every_edge_has_its_reverse(data):
    both = torch.cat([data.edge_index, data.edge_index.flip(0)], 1)
    given = replace(data, graph=Graph(both, 9))
    ours, peer = sides.ours(FAMILIES[-1], given, "off"), sides.peer(FAMILIES[-1], given, "torch.sparse")
    sides.share_weights(ours.model, peer.model)
    assert sides.check_equal(ours.scores(), peer.scores()) < 1e-5
    mine, theirs = gradients(ours, peer)
    assert (mine - theirs).norm() < 1e-4 * theirs.norm()


def test_of_trees_the_peer_reads_what_we_read(trees):
    x, graph, read = trees.ours()
    (examples,) = trees.peers()
    collated = Batch.from_data_list(examples)
    assert (read, len(trees.y)) == (len(examples), len(examples))
    torch.testing.assert_close(collated.x, x.view(15, read, 2).transpose(0, 1).flatten(0, 1))
    rows = torch.arange(15 * read).view(15, read).t().flatten()  # in our graph, of the collated nodes
    mine = Graph(rows[collated.edge_index], graph.num_nodes)
    torch.testing.assert_close(mine.edge_index, graph.edge_index)
    torch.testing.assert_close(collated.y, trees.y)


def test_layers_are_compiled_as_in_a_training(data, trees):
    assert sides.ours(FAMILIES[0], data).model._compiled.only is None
    assert sides.ours(TREES, trees).model._compiled.only is trees.graph
    assert sides.ours(TREES, trees, "off").model._compiled is None


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
