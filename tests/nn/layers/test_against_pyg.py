"""Our layers against PyTorch Geometric's, with equal parameters, in float64, gradients and features
of edges too."""

from functools import partial

import pytest
import torch
from torch import nn
from torch_geometric.nn import (
    GATConv,
    GatedGraphConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    SAGEConv,
    TransformerConv,
)

from gnn_depth.graph import Graph
from gnn_depth.nn.layers import GAT, GCN, GGNN, GIN, SAGE, GATv2, PyGConv, Transformer


def reads_edges(layer):
    layer.add_edge_features(3)
    return layer


# Each pair has the names of PyTorch Geometric's modules and parameters that are not ours.
def gcn_pair():
    return GCN(5, 6), GCNConv(5, 6), {}


def gat_pair():
    return GAT(5, 3, heads=2), GATConv(5, 3, heads=2), {}


def gatv2_pair(share):
    options = {"heads": 2, "share_weights": share, "bias": False}
    names = {"lin_src": "lin_l", "lin_dst": "lin_r"}
    return GATv2(5, 3, **options), GATv2Conv(5, 3, **options), names


def transformer_pair(**options):
    names = {"lin_root": "lin_skip"}
    for k, part in enumerate(["message", "root", "difference"]):
        names[f"gate_{part}"] = ("lin_beta.weight", k)
    return Transformer(5, 3, heads=2, **options), TransformerConv(5, 3, heads=2, **options), names


def ggnn_pair(**options):
    names = {"lin.weight": ("weight", 0), "gru": "rnn"}
    return GGNN(5, 6, **options), GatedGraphConv(6, num_layers=1, **options), names


def gin_pair(train_eps=False, batch_norm=False, bias=True):
    norm = [nn.BatchNorm1d(6)] * batch_norm
    mlp = nn.Sequential(nn.Linear(5, 6, bias=bias), *norm, nn.ReLU(), nn.Linear(6, 6, bias=bias))
    names = {"lin": "nn.0", "bias": "nn.0.bias", "lin_out": f"nn.{len(mlp) - 1}"}
    names["batch_norm.norm"] = "nn.1"
    ours = GIN(5, 6, eps=0.25, train_eps=train_eps, batch_norm=batch_norm, bias=bias)
    return ours, GINConv(mlp, eps=0.25, train_eps=train_eps), names


def sage_pair(**options):
    names = {"lin": "lin_l", "bias": "lin_l.bias", "lin_root": "lin_r"}
    return SAGE(5, 6, **options), SAGEConv(5, 6, **options), names


def with_edges(pair, conv, **options):
    ours, _, names = pair()
    return reads_edges(ours), conv(5, 3, heads=2, edge_dim=3, **options), names


def matrix(x, edges, weight):
    return x.new_zeros(len(x), len(x)).index_put((edges[1], edges[0]), weight, accumulate=True)


def sage_with_weights():
    ours, theirs, names = sage_pair()  # PyTorch Geometric's reads no weights, nor does its GIN

    def forward(x, edges, edge_weight):
        sums = matrix(x, edges, edge_weight)
        return theirs.lin_l(sums / sums.sum(1, True).clamp_min(1e-30) @ x) + theirs.lin_r(x)

    theirs.forward = forward
    return ours, theirs, names


def gin_with_weights():
    ours, theirs, names = gin_pair()

    def forward(x, edges, edge_weight):
        return theirs.nn(matrix(x, edges, edge_weight) @ x + 1.25 * x)

    theirs.forward = forward
    return ours, theirs, names


def pyg_with_weights():
    names = {f"conv.{name}": name for name in ("lin_rel", "lin_root")}
    return PyGConv(5, 6, "GraphConv"), GraphConv(5, 6), names


def gin_with_edges():
    ours, theirs, names = gin_pair()
    theirs = GINEConv(theirs.nn, eps=0.25, edge_dim=3)
    return reads_edges(ours), theirs, names | {"lin_edge": "lin"}


PAIRS = {
    "gat_with_edges": partial(with_edges, gat_pair, GATConv),
    "gatv2_with_edges": partial(with_edges, partial(gatv2_pair, False), GATv2Conv, bias=False),
    "transformer_with_edges": partial(with_edges, transformer_pair, TransformerConv),
    "gin_with_edges": gin_with_edges,
    "gcn_with_weights": gcn_pair,
    "sage_with_weights": sage_with_weights,
    "gin_with_weights": gin_with_weights,
    "pyg_with_weights": pyg_with_weights,
    "gcn": gcn_pair,
    "gat": gat_pair,
    "gatv2": partial(gatv2_pair, False),
    "gatv2_shared": partial(gatv2_pair, True),
    "transformer": transformer_pair,
    "transformer_bias": partial(transformer_pair, bias=False),
    "transformer_root": partial(transformer_pair, root_weight=False),
    "transformer_beta": partial(transformer_pair, beta=True),
    "transformer_beta_bias": partial(transformer_pair, beta=True, bias=False),
    "ggnn": ggnn_pair,
    "ggnn_bias": partial(ggnn_pair, bias=False),
    "gin": gin_pair,
    "gin_eps": partial(gin_pair, train_eps=True),
    "gin_batch_norm": partial(gin_pair, batch_norm=True),
    "gin_bias": partial(gin_pair, bias=False),
    "sage": sage_pair,
    "sage_root": partial(sage_pair, root_weight=False),
    "sage_bias": partial(sage_pair, bias=False),
}


def part_of(tensors, names, ours):
    """The tensor of a parameter of ours, or one of the equal parts that ours keep apart."""
    module, _, kind = ours.rpartition(".")
    name = names.get(ours, f"{names.get(module, module)}.{kind}".lstrip("."))
    if isinstance(name, str):
        return tensors[name]
    whole, position = name
    return tensors[whole].view(3 if whole == "lin_beta.weight" else 1, -1)[position]


@pytest.mark.parametrize("pair", PAIRS)
def test_outputs_and_all_gradients_agree(pair, graph):
    ours, theirs, names = PAIRS[pair]()
    ours, theirs = ours.double(), theirs.double()
    mine, other = dict(ours.named_parameters()), dict(theirs.named_parameters())
    with torch.no_grad():
        for parameter in other.values():
            parameter.fill_(torch.nan)  # so that one which ours lacks would show
        for name, parameter in mine.items():
            place = part_of(other, names, name)
            place.copy_(parameter.normal_().view_as(place))
    if ours.edge_channels:
        features = torch.randn(graph.num_edges, 3, dtype=torch.float64)
        graph = Graph(graph.edge_index, graph.num_nodes, edge_attr=features)
    if pair.endswith("weights"):
        weight = torch.rand(graph.num_edges, dtype=torch.float64)
        weight[graph.in_degree[graph.target] == 1] = 0
        graph = Graph(graph.edge_index, graph.num_nodes, edge_weight=weight)
    x = torch.randn(graph.num_nodes, 5, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(graph.num_nodes, ours.width, dtype=torch.float64)
    out, expected = ours(x, graph), theirs(x, graph.edge_index, **graph.of_edges(slice(None)))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    got = torch.autograd.grad(out, [x, *mine.values()], direction)
    of_x, *wanted = torch.autograd.grad(
        expected, [x, *other.values()], direction, allow_unused=True
    )
    torch.testing.assert_close(got[0], of_x, rtol=1e-11, atol=1e-12)
    gradients = dict(zip(other, wanted))
    for name, gradient in zip(mine, got[1:]):
        place = part_of(gradients, names, name).view_as(gradient)
        torch.testing.assert_close(gradient, place, rtol=1e-11, atol=1e-11, msg=name)
