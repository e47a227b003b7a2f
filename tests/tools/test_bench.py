"""A comparison is of the same function, and its ratios are of the same rounds."""

import pytest
import torch

from gnn_depth.data import NodeBatch
from gnn_depth.graph import Graph
from tools.bench import timing
from tools.bench.cases import Case, full_batch
from tools.bench.sides import equal_sides, share_weights
from tools.bench.stack import check_equal

FAMILIES = [
    (Case("gat-lip", "", 3), "pyg"),
    (Case("gat-lip", "", 3, 2), "pyg"),
    (Case("gatv2", "", 3), "pyg"),
    (Case("gcn", "", 3), "pyg"),
    (Case("gcn", "", 3), "torch.sparse"),
    (Case("gcn", "", 3), "no-kernels"),
    (Case("depth", "", 4), "checkpoint"),
]


def gradients(side):
    """Of all parameters, left in their place, after a step in evaluation mode."""
    side.model.eval()
    side()
    for parameter in side.model.parameters():
        parameter.data = parameter.grad
    return torch.cat([parameter.flatten() for parameter in side.model.parameters()])


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(("case", "name"), FAMILIES)
def test_a_peer_with_our_weights_has_our_scores_and_gradients(case, name, graph):
    both_ways = torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1)  # as torch.sparse needs
    mask = torch.arange(9) < 4
    batch = NodeBatch(
        torch.randn(9, 5), torch.arange(9) % 3, Graph(both_ways, 9), mask, ~mask, ~mask
    )
    ours, peer = equal_sides(case, full_batch(batch, 3), ["default", name]).values()
    torch.testing.assert_close(ours.scores(), peer.scores(), rtol=1e-5, atol=1e-6)
    theirs = gradients(peer)
    gradients(ours)
    share_weights(ours.model, peer.model)
    mine = torch.cat([parameter.flatten() for parameter in peer.model.parameters()])
    assert (mine - theirs).norm() < 1e-5 * theirs.norm()


def test_other_scores_are_an_error():
    with pytest.raises(ValueError, match=r"the sides differ by 1\.0e-02"):
        check_equal(torch.ones(3), torch.tensor([1.0, 1.0, 1.01]))
    with pytest.raises(ValueError, match="differ by nan"):
        check_equal(torch.ones(3), torch.full((3,), torch.nan))


def test_a_ratio_is_taken_within_each_round_so_a_drift_of_both_sides_cancels():
    assert timing.ratio([0.5, 1.0, 2.0], [1.0, 2.0, 4.0]) == "0.500 (0.500-0.500)"
    assert timing.ratio([1.0, 3.0, 1.0], [4.0, 4.0, 2.0]) == "0.500 (0.250-0.750)"


def test_sides_take_turns_and_a_first_call_that_compiles_is_in_no_sample(monkeypatch):
    monkeypatch.setattr(timing.gc, "collect", lambda: None)  # takes longest
    now, order = [0.0], []

    def side(name, seconds):
        def call():
            first = name not in order
            order.append(name)
            now[0] += 30.0 if first else seconds

        return call

    sides = {"ours": side("ours", 0.3), "peer": side("peer", 0.5)}
    seconds = timing.in_turns(sides, 2, lambda: now[0])
    assert seconds == {"ours": pytest.approx([0.3, 0.3]), "peer": pytest.approx([0.5, 0.5])}
    # Samples of at least 0.8 seconds; the second round is in reverse.
    assert order[4:] == [*["ours"] * 3, *["peer"] * 4, *["ours"] * 3]
