import torch

from gnn_depth.nn.norms import GraphNorm
from tests import reference_norms


def test_values_and_gradients_are_those_of_a_loop(together, at_random):
    x = torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    norm = at_random(GraphNorm(4))
    expected = reference_norms.graph_norm(x, together.whole, norm.alpha, norm.gamma, norm.beta)
    reference_norms.assert_same(norm(x, together.whole), expected, [x, norm.alpha, norm.gamma, norm.beta])


def test_every_channel_of_every_graph_begins_with_mean_zero_and_variance_one(together):
    out = GraphNorm(4)(3 * torch.randn(14, 4) + 2, together.whole)
    for _, nodes in together.parts:
        torch.testing.assert_close(out[nodes].mean(0), torch.zeros(4), atol=1e-6, rtol=0)
        torch.testing.assert_close(out[nodes].var(0, correction=0), torch.ones(4), atol=1e-3, rtol=0)


def test_with_no_share_of_the_mean_nothing_is_centred(graph):
    norm, x = GraphNorm(4), torch.randn(9, 4) + 5
    torch.nn.init.zeros_(norm.alpha)
    torch.testing.assert_close(norm(x, graph), x / (x.square().mean(0) + 1e-5).sqrt())
