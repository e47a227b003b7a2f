"""PyTorch Geometric's convolutions as layers of a stack."""

import pytest
import torch

import gnn_depth
from gnn_depth.nn.layers import PyGConv

NODES, CHANNELS = 12, 6
OPTIONS = {
    **dict.fromkeys(["GCNConv", "TransformerConv", "CGConv", "SuperGATConv", "GENConv"]),
    "SAGEConv": {"aggr": "max"},
    "GATConv": {"heads": 2},
    "GATv2Conv": {"heads": 3, "concat": False},
    "ChebConv": {"K": 3},
    "GatedGraphConv": {"num_layers": 2},
    "APPNP": {"K": 2, "alpha": 0.1},
}


@pytest.fixture
def edge_index():
    return torch.randint(NODES, (2, 40), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", OPTIONS)
def test_a_convolution_gives_what_it_gives_alone_and_trains_in_a_stack(name, edge_index):
    x = torch.randn(NODES, CHANNELS)
    layer = PyGConv(CHANNELS, CHANNELS, name, OPTIONS[name]).eval()
    assert torch.allclose(
        layer(x, gnn_depth.Graph(edge_index, NODES)), layer.conv(x, edge_index), atol=1e-5
    )

    def make(in_channels, out_channels):
        return PyGConv(in_channels, out_channels // layer.heads, name, OPTIONS[name])

    stack = gnn_depth.DeepGNN(CHANNELS, 3, make, 3, CHANNELS, activation="tanh")
    stack(x, edge_index).square().sum().backward()
    assert stack.encoder.weight.grad.any()


@pytest.mark.parametrize(
    ("conv", "options", "words"),
    [
        ("SageConv", {}, "'SageConv'.*'SAGEConv'"),
        ("SAGEConv", {"agr": "max"}, "'agr'.*'aggr'"),
        ("ChebConv", {}, "refuses its options.*'K'"),
        ("CGConv", {}, "6.*4"),
    ],
)
def test_what_cannot_be_a_layer_is_refused_with_the_reason(conv, options, words):
    with pytest.raises(ValueError, match=words):
        PyGConv(CHANNELS, 4, conv, options)


def test_an_output_of_another_width_is_named(edge_index):
    layer = PyGConv(CHANNELS, CHANNELS, "MixHopConv")
    with pytest.raises(ValueError, match=r"MixHopConv.*\(12, 18\).*\(12, 6\)"):
        layer(torch.randn(NODES, CHANNELS), gnn_depth.Graph(edge_index, NODES))
