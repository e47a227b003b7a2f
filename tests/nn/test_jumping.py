"""What the decoder reads of the outputs of all layers."""

from functools import partial

import pytest
import torch
from torch_geometric.nn import JumpingKnowledge

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GAT
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import NoSkip, Residual

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
JUMPS = ("max", "cat")


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("skip", [NoSkip, Residual])
def test_the_decoder_reads_what_leaves_every_layer_norms_activations_and_skips_included(
    jump, skip, graph
):
    stack = DeepGNN(
        6, 3, partial(GAT, heads=2), 3, 2, [LayerNorm], skip, last_activation=True, jump=jump
    ).double()
    h, states = stack.encoder(X), []
    for layer, norms, joined in zip(stack.layers, stack.norms, stack.skips):
        h = joined(torch.relu(norms[0](layer(h, graph), graph)), [h], graph)
        states.append(h)
    torch.testing.assert_close(stack(X, graph), stack.decoder(JumpingKnowledge(jump)(states)))
