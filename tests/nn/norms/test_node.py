import pytest
import torch

from gnn_depth.nn.norms import NodeNorm
from tests import reference_norms


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_values_and_gradients_are_those_of_a_loop(p, graph):
    x = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    reference_norms.assert_same(NodeNorm(4, p=p)(x, graph), reference_norms.node(x, graph, p), [x])


def test_the_deviation_of_every_node_becomes_one_and_its_mean_stays_where_it_was_relative_to_it(graph):
    x = 30 * torch.randn(9, 4, dtype=torch.float64) + 70
    out = NodeNorm(4)(x, graph)
    torch.testing.assert_close(out.std(1, correction=0), torch.ones(9, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(out.mean(1), x.mean(1) / x.std(1, correction=0), rtol=1e-6, atol=0)


def test_the_larger_p_the_less_it_does(graph):
    x = 100 * torch.randn(9, 4, dtype=torch.float64)
    changes = [(NodeNorm(4, p=p)(x, graph) - x).norm() for p in (1.0, 2.0, 4.0, 1e6)]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] < 1e-4 * x.norm()
