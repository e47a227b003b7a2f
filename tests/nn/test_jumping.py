"""What the decoder reads of the outputs of all layers."""

from functools import partial

import pytest
import torch
from torch_geometric.nn import JumpingKnowledge

from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GAT, GCN
from gnn_depth.nn.norms import LayerNorm
from gnn_depth.nn.skips import Dense, NoSkip, Residual

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


def test_widths_add_up_side_by_side():
    assert DeepGNN(6, 3, partial(GAT, heads=2), 3, 5, jump="cat").decoder.in_features == 30
    assert DeepGNN(6, 3, GCN, 3, 5, skip=Dense, jump="cat").decoder.in_features == 10 + 15 + 20


def test_the_largest_of_several_widths_and_a_jump_that_nobody_reads_are_refused():
    with pytest.raises(ValueError, match=r"jump max .*one width.* \[10, 15\]"):
        DeepGNN(6, 3, GCN, 2, 5, skip=Dense, jump="max")
    for jump in JUMPS:
        with pytest.raises(ValueError, match=f"jump {jump} needs a decoder"):
            DeepGNN(6, 3, GCN, jump=jump, decoder="none")
