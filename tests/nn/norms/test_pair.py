import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.norms import PairNorm, PairNormSI
from tests import reference_norms

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
one_graph = Graph(NO_EDGES, 6)
two_graphs = Graph(NO_EDGES, 6, torch.tensor([0, 0, 1, 1, 1, 1]))


@pytest.mark.parametrize(("norm", "loop"), [(PairNorm, reference_norms.pair), (PairNormSI, reference_norms.pair_si)])
def test_values_and_gradients_are_those_of_a_loop(norm, loop, together):
    x = torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    reference_norms.assert_same(norm(4, scale=2.0)(x, together.whole), loop(x, together.whole, 2.0), [x])


def test_scaled_individually_every_node_has_the_same_norm_but_one_at_the_mean():
    x = torch.tensor([[3.0, 4.0], [-3.0, -4.0], [1e3, 0.0], [-1e3, 0.0], [0.0, 0.0], [0.0, 0.0]])
    norms = PairNormSI(2, scale=2.0)(x, one_graph).norm(dim=-1)
    torch.testing.assert_close(norms, torch.tensor([2.0, 2.0, 2.0, 2.0, 0.0, 0.0]))


def test_it_centres_every_graph():
    out = PairNorm(4)(torch.randn(6, 4) + 5, two_graphs)
    torch.testing.assert_close(out[:2].mean(0), torch.zeros(4), atol=1e-6, rtol=0)
    torch.testing.assert_close(out[2:].mean(0), torch.zeros(4), atol=1e-6, rtol=0)


def test_it_is_unmoved_by_shifting_and_scaling_its_input():
    x, norm = 100 * torch.randn(6, 4, dtype=torch.float64), PairNorm(4)
    torch.testing.assert_close(norm(3 * x + 7, one_graph), norm(x, one_graph))


@pytest.mark.parametrize("norm", [PairNorm, PairNormSI])
def test_identical_nodes_stay_identical_and_have_gradients_of_a_bearable_size(norm):
    x = torch.ones(6, 4, requires_grad=True)
    out = norm(4)(x, one_graph)
    (out * torch.randn(6, 4)).sum().backward()
    assert (out == 0).all()
    assert 0 < x.grad.abs().max() < 1e4


@pytest.mark.parametrize("norm", [PairNorm, PairNormSI])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_half_precision_neither_overflow_nor_vanish(norm, dtype):
    x = torch.randn(6, 4)
    for size in (1e-3, 1e3):
        out = norm(4)((size * x).to(dtype), one_graph)
        assert out.dtype == dtype
        torch.testing.assert_close(out.float(), norm(4)(size * x, one_graph), rtol=0.05, atol=0.02)
