"""PyTorch Geometric's convolutions as layers of a stack."""

import pytest
import torch

import gnn_depth
from gnn_depth.nn.layers import PyGConv

NODES, CHANNELS = 12, 6
OPTIONS = {
    **dict.fromkeys(
        ["GCNConv", "ResGatedGraphConv", "TAGConv", "ARMAConv", "CGConv", "LEConv", "SuperGATConv"]
    ),
    **dict.fromkeys(
        ["GraphConv", "TransformerConv", "SGConv", "MFConv", "FeaStConv", "GENConv", "GeneralConv"]
    ),
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
    x, y = torch.randn(NODES, CHANNELS), torch.arange(NODES) % 3
    layer = PyGConv(CHANNELS, CHANNELS, name, OPTIONS[name]).eval()
    assert torch.allclose(
        layer(x, gnn_depth.Graph(edge_index, NODES)), layer.conv(x, edge_index), atol=1e-5
    )

    def make(in_channels, out_channels):
        return PyGConv(in_channels, out_channels // layer.heads, name, OPTIONS[name])

    options = {"hidden_channels": CHANNELS, "norm": "layer", "skip": "residual"}
    stack = gnn_depth.DeepGNN(CHANNELS, 3, layer=make, num_layers=3, **options)
    optimizer, losses = torch.optim.Adam(stack.parameters(), lr=0.02), []
    for _ in range(15):
        losses.append(torch.nn.functional.cross_entropy(stack(x, edge_index), y))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize(
    ("conv", "options", "words"),
    [
        ("SageConv", {}, "'SageConv'.*'SAGEConv'"),
        ("SAGEConv", {"agr": "max"}, "'agr'.*'aggr'"),
        ("ChebConv", {}, "K.*layer.options.K"),
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
