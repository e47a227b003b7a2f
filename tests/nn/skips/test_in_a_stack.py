"""Every skip connection where it belongs: between the layers of a stack."""

from functools import partial

import pytest
import torch

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.inits import Xavier
from gnn_depth.nn.layers import GCN
from gnn_depth.nn.skips import Dense, Gated, InitialResidual, LayerScale, ReZero
from tests.nn.layers.test_remedies import gcn_matrix


def features(dtype=torch.float64):
    return torch.randn(9, 6, dtype=dtype)


def test_with_dense_connections_every_layer_sees_all_earlier_outputs_and_the_first_state(graph):
    stack, x = DeepGNN(6, 3, GCN, 3, 4, skip=Dense, activation="identity").double(), features()
    assert [layer.in_channels for layer in stack.layers] == [4, 8, 12]
    seen = [stack.encoder(x)]
    for layer in stack.layers:
        seen.append(layer(torch.cat(seen, 1), graph))
    torch.testing.assert_close(stack(x, graph), stack.decoder(torch.cat(seen, 1)))


def test_a_deep_linear_gcn_with_initial_residuals_gives_personalised_pagerank(graph):
    # The fixed point of X = (1 - alpha) P X + alpha X0, which tells nodes apart at any depth.
    stack = DeepGNN(
        6,
        6,
        GCN,
        200,
        6,
        skip=partial(InitialResidual, alpha=0.2),
        activation="identity",
        encoder="none",
    ).double()
    with torch.no_grad():
        for linear in (stack.decoder, *(layer.lin for layer in stack.layers)):
            linear.weight.copy_(torch.eye(6))
        stack.decoder.bias.zero_()
    x = features()
    wanted = 0.2 * torch.linalg.inv(torch.eye(9) - 0.8 * gcn_matrix(graph)) @ x
    torch.testing.assert_close(stack(x, graph), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("num_layers", [1, 200])
def test_a_stack_of_rezero_begins_as_its_encoder_and_decoder_at_any_depth(num_layers, graph):
    stack, x = DeepGNN(6, 3, GCN, num_layers, 4, skip=ReZero), features(torch.float32)
    out, without = stack(x, graph), stack.decoder(stack.encoder(x))
    assert torch.equal(out, without)
    weight = stack.encoder.weight
    for ours, wanted in zip(
        *(torch.autograd.grad(of.square().sum(), weight) for of in (out, without))
    ):
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize(
    ("skip", "option"), [(Gated, "bias"), (ReZero, "initial"), (LayerScale, "initial")]
)
def test_an_init_leaves_what_a_skip_begins_with(skip, option):
    stack = DeepGNN(6, 3, GCN, 2, 4, skip=partial(skip, **{option: -2.5}))
    Xavier()(stack)
    for joined in stack.skips:
        begins = joined.bias if skip is Gated else joined.scale
        assert (begins == -2.5).all()
