"""Every skip connection where it belongs: between the layers of a stack."""

from functools import partial

import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import Xavier
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.skips import Gated, InitialResidual, LayerScale, ReZero
from tests.nn.layers.test_remedies import gcn_matrix


def features(dtype=torch.float64):
    return torch.randn(9, 6, dtype=dtype)


def test_a_deep_linear_gcn_with_initial_residuals_gives_personalised_pagerank(graph):
    # The fixed point of X = (1 - alpha) P X + alpha X0, which tells nodes apart at any depth.
    skip = partial(InitialResidual, alpha=0.2)
    stack = DeepGNN(6, 6, GCN, 200, 6, skip=skip, activation="identity", encoder="none").double()
    with torch.no_grad():
        for linear in (stack.decoder, *(layer.lin for layer in stack.layers)):
            linear.weight.copy_(torch.eye(6))
        stack.decoder.bias.zero_()
    x = features()
    wanted = 0.2 * torch.linalg.inv(torch.eye(9) - 0.8 * gcn_matrix(graph)) @ x
    torch.testing.assert_close(stack(x, graph), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("skip", "option"), [(Gated, "bias"), (ReZero, "initial"), (LayerScale, "initial")]
)
def test_an_init_leaves_what_a_skip_begins_with(skip, option):
    stack = DeepGNN(6, 3, GCN, 2, 4, skip=partial(skip, **{option: -2.5}))
    Xavier()(stack)
    for joined in stack.skips:
        begins = joined.bias if skip is Gated else joined.scale
        assert (begins == -2.5).all()
