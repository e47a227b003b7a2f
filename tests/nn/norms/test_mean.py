import torch
from torch_geometric.nn import MeanSubtractionNorm

from gnn_depth.graph import Graph
from gnn_depth.nn.norms import MeanNorm
from tests import reference_norms


def test_values_and_gradients_are_those_of_a_loop(together):
    x = torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    reference_norms.assert_same(MeanNorm(4)(x, together.whole), reference_norms.mean(x, together.whole), [x])


def test_differences_between_nodes_are_kept_and_their_mean_is_gone(graph):
    x = torch.randn(9, 4, dtype=torch.float64) + 5
    out = MeanNorm(4)(x, graph)
    torch.testing.assert_close(out - out[0], x - x[0])
    torch.testing.assert_close(out.mean(0), torch.zeros(4, dtype=torch.float64), atol=1e-12, rtol=0)


def test_sums_over_nodes_of_half_precision_do_not_overflow():
    halves = Graph(torch.zeros(2, 0, dtype=torch.long), 8192, torch.arange(8192) % 2)
    x = torch.full((8192, 1), 100.0, dtype=torch.float16)
    assert (MeanNorm(1)(x, halves) == 0).all()
    assert not MeanSubtractionNorm()(x, halves.node_to_graph).isfinite().all()
