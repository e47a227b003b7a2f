import pytest
from torch import nn

from gnn_depth.nn.inits import Xavier
from gnn_depth.nn.layers import GAT, GCN, GIN, SAGE, GATv2, Transformer
from gnn_depth.nn.parts import Layer
from gnn_depth.nn.skips import Residual
from gnn_depth.nn.stack import DeepGNN


def stack_of(layer):
    return DeepGNN(50, 7, layer, num_layers=3, hidden_channels=128, skip=Residual)


WITH_CHAIN = [GCN, GAT, GATv2, GIN, SAGE, Transformer]


def matrices(layer):
    chain = layer.weight_chain()
    return list(dict.fromkeys((*chain.incoming, *chain.outgoing)))


@pytest.mark.parametrize("layer", WITH_CHAIN)
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_xavier_draws_matrices_of_its_variance_and_attention_as_one_row(layer, distribution):
    stack = stack_of(layer)
    Xavier(distribution, gain=2.0)(stack)
    weights = [weight for block in stack.layers for weight in matrices(block)]
    for weight in [*weights, *(linear.weight for linear in stack.linear_maps())]:
        expected = 4 * 2 / sum(weight.shape)
        assert weight.var().item() == pytest.approx(expected, rel=0.15 if weight.numel() > 1000 else 0.3)
        assert weight.mean().abs().item() < 5 * (expected / weight.numel()) ** 0.5
    for block in stack.layers:
        for attention in block.weight_chain().attention:
            assert attention.var().item() == pytest.approx(4 * 2 / 129, rel=0.5)
    bound = (4 * 6 / 256) ** 0.5
    assert (weights[0].abs().max().item() <= bound) == (distribution == "uniform")


@pytest.mark.parametrize("layer", WITH_CHAIN)
def test_xavier_draws_each_matrix_once(layer, monkeypatch):
    drawn = []
    monkeypatch.setattr(nn.init, "xavier_normal_", lambda weight, gain: drawn.append(id(weight)))
    stack = stack_of(layer)
    Xavier()(stack)
    wanted = [id(weight) for block in stack.layers for weight in matrices(block)]
    wanted += [id(linear.weight) for linear in stack.linear_maps()]
    assert sorted(identity for identity in drawn if identity in wanted) == sorted(wanted)


def test_a_layer_without_a_weight_chain_is_named():
    class Plain(Layer):
        def forward(self, x, graph):
            return x

        def reset_parameters(self):
            pass

    stack = DeepGNN(4, 2, Plain, num_layers=1, hidden_channels=4)
    with pytest.raises(ValueError, match=r"needs the weight chain of layer 1, and Plain has none"):
        Xavier()(stack)


def test_an_init_that_overrides_the_call_is_refused():
    with pytest.raises(TypeError, match="Late.*draw"):

        class Late(Xavier):
            def __call__(self, stack): ...
