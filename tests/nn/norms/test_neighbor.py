import pytest
import torch

from gnn_depth.nn.norms import NeighborNorm
from tests import reference, reference_norms


@pytest.mark.parametrize("per_channel", [True, False])
def test_values_and_gradients_are_those_of_a_loop_over_neighbours(per_channel, together):
    x = torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    norm = reference.drawn(NeighborNorm(4, per_channel=per_channel))
    expected = reference_norms.neighbor(x, together.whole, norm.gamma, norm.beta, per_channel)
    reference.agree(norm(x, together.whole), expected, [x, norm.gamma, norm.beta])


@pytest.mark.parametrize("per_channel", [True, False])
def test_neighbours_that_differ_by_a_hundred_thousandth_of_their_size_keep_their_deviation(
    per_channel, graph
):
    x = (1000 + 0.01 * torch.randn(9, 4)).requires_grad_()
    norm = NeighborNorm(4, per_channel=per_channel)
    exact = x.detach().double().requires_grad_()
    expected = reference_norms.neighbor(
        exact, graph, norm.gamma.double(), norm.beta.double(), per_channel
    )
    out = norm(x, graph)
    torch.testing.assert_close(out.double(), expected, rtol=0.01, atol=0.01)
    direction = torch.randn(9, 4)
    (gradient,) = torch.autograd.grad(out, x, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction.double())
    torch.testing.assert_close(
        gradient.double(), wanted, rtol=0.02, atol=0.02 * wanted.abs().max().item()
    )
