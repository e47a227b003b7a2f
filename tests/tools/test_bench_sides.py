"""Both sides of a case are the same model."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch

from gnn_depth.graph import Graph
from tools.bench import sides
from tools.bench.cases import Case
from tools.bench.graphs import Data, load

FAMILIES = [
    *(
        Case("", family, "cora", 3, heads)
        for family, heads in (("gat-lip", 1), ("gat-lip", 2), ("gt-lip", 2))
    ),
    *(Case("", family, "cora", 3) for family in ("gatv2", "gcn")),
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
    expected = torch.cat(
        [parameter.data.flatten().clone() for parameter in peer.model.parameters()]
    )
    sides.share_weights(ours.model, peer.model)
    return torch.cat([parameter.data.flatten() for parameter in peer.model.parameters()]), expected


@pytest.mark.parametrize(
    ("case", "kind"),
    [*((case, "peer") for case in (*FAMILIES, TREES)), (FAMILIES[-1], "torch.sparse")],
    ids=lambda given: given if isinstance(given, str) else f"{given.family}-{given.heads}",
)
def test_with_the_same_weights_both_sides_have_the_same_scores_and_gradients(
    case, kind, data, trees
):
    given = trees if case is TREES else data
    if kind == "torch.sparse":  # needs the reverse of every edge
        given = replace(
            data, graph=Graph(torch.cat([data.edge_index, data.edge_index.flip(0)], 1), 9)
        )
    ours, peer = sides.ours(case, given, "off"), sides.peer(case, given, kind)
    sides.share_weights(ours.model, peer.model)
    assert sides.check_equal(ours.scores(), peer.scores()) < 1e-5
    assert ours.path == "eager"
    mine, theirs = gradients(ours, peer)
    assert (mine - theirs).norm() < 1e-4 * theirs.norm()


def test_of_trees_the_peer_reads_what_we_read(trees):
    x, graph, read = trees.ours()
    (examples,) = trees.peers()
    collated = Batch.from_data_list(examples)
    assert (read, len(trees.y)) == (len(examples), len(examples))
    torch.testing.assert_close(collated.x, x.view(15, read, 2).transpose(0, 1).flatten(0, 1))
    rows = (
        torch.arange(15 * read).view(15, read).t().flatten()
    )  # in our graph, of the collated nodes
    mine = Graph(rows[collated.edge_index], graph.num_nodes)
    torch.testing.assert_close(mine.edge_index, graph.edge_index)
    torch.testing.assert_close(collated.y, trees.y)


def test_different_scores_are_an_error():
    with pytest.raises(ValueError, match=r"the sides differ by 1\.0e-02"):
        sides.check_equal(torch.ones(3), torch.tensor([1.0, 1.0, 1.01]))
    with pytest.raises(ValueError, match="differ by nan"):
        sides.check_equal(torch.ones(3), torch.full((3,), torch.nan))
