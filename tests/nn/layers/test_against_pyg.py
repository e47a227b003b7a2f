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
    SAGEConv,
    TransformerConv,
)

from gnn_depth.graph import Graph
from gnn_depth.nn.layers import GAT, GCN, GGNN, GIN, SAGE, GATv2, Transformer

LIN_EDGE = {"lin_edge.weight": "lin_edge.weight"}


def reads_edges(layer):
    layer.add_edge_features(3)
    return layer


def gcn_pair():
    return GCN(5, 6), GCNConv(5, 6), {"lin.weight": "lin.weight", "bias": "bias"}


def gat_pair():
    names = {"lin.weight": "lin.weight", "att_src": "att_src", "att_dst": "att_dst", "bias": "bias"}
    return GAT(5, 3, heads=2), GATConv(5, 3, heads=2), names


def gatv2_pair(share):
    options = {"heads": 2, "share_weights": share, "bias": False}
    names = {"lin_src.weight": "lin_l.weight", "att": "att"} | (
        {} if share else {"lin_dst.weight": "lin_r.weight"}
    )
    return GATv2(5, 3, **options), GATv2Conv(5, 3, **options), names


def transformer_pair(**options):
    maps = {"lin_query": "lin_query", "lin_key": "lin_key", "lin_value": "lin_value"}
    maps |= {"lin_root": "lin_skip"} if options.get("root_weight", True) else {}
    kinds = ("weight", "bias") if options.get("bias", True) else ("weight",)
    names = {
        f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in maps.items() for kind in kinds
    }
    if options.get("beta"):
        names |= {
            f"gate_{part}": ("lin_beta.weight", k)
            for k, part in enumerate(["message", "root", "difference"])
        }
    return Transformer(5, 3, heads=2, **options), TransformerConv(5, 3, heads=2, **options), names


def ggnn_pair(**options):
    names = {"lin.weight": ("weight", 0)}
    names |= {
        f"gru.{name}": f"rnn.{name}" for name, _ in nn.GRUCell(6, 6, **options).named_parameters()
    }
    return GGNN(5, 6, **options), GatedGraphConv(6, num_layers=1, **options), names


def gin_pair(train_eps=False, batch_norm=False, bias=True):
    norm = [nn.BatchNorm1d(6)] if batch_norm else []
    mlp = nn.Sequential(nn.Linear(5, 6, bias=bias), *norm, nn.ReLU(), nn.Linear(6, 6, bias=bias))
    last = len(mlp) - 1
    names = {"lin.weight": "nn.0.weight", "lin_out.weight": f"nn.{last}.weight"}
    names |= {"bias": "nn.0.bias", "lin_out.bias": f"nn.{last}.bias"} if bias else {}
    names |= (
        {f"batch_norm.norm.{kind}": f"nn.1.{kind}" for kind in ("weight", "bias")}
        if batch_norm
        else {}
    )
    names |= {"eps": "eps"} if train_eps else {}
    ours = GIN(5, 6, eps=0.25, train_eps=train_eps, batch_norm=batch_norm, bias=bias)
    return ours, GINConv(mlp, eps=0.25, train_eps=train_eps), names


def sage_pair(**options):
    names = {"lin.weight": "lin_l.weight"}
    names |= {"bias": "lin_l.bias"} if options.get("bias", True) else {}
    names |= {"lin_root.weight": "lin_r.weight"} if options.get("root_weight", True) else {}
    return SAGE(5, 6, **options), SAGEConv(5, 6, **options), names


def gat_with_edges():
    ours, _, names = gat_pair()
    return (
        reads_edges(ours),
        GATConv(5, 3, heads=2, edge_dim=3),
        names | LIN_EDGE | {"att_edge": "att_edge"},
    )


def gatv2_with_edges():
    ours, _, names = gatv2_pair(False)
    return reads_edges(ours), GATv2Conv(5, 3, heads=2, bias=False, edge_dim=3), names | LIN_EDGE


def transformer_with_edges():
    ours, _, names = transformer_pair()
    return reads_edges(ours), TransformerConv(5, 3, heads=2, edge_dim=3), names | LIN_EDGE


def gin_with_edges():
    ours, theirs, names = gin_pair()
    edges = {"lin_edge.weight": "lin.weight", "lin_edge.bias": "lin.bias"}
    return reads_edges(ours), GINEConv(theirs.nn, eps=0.25, edge_dim=3), names | edges


PAIRS = {
    "gat_with_edges": gat_with_edges,
    "gatv2_with_edges": gatv2_with_edges,
    "transformer_with_edges": transformer_with_edges,
    "gin_with_edges": gin_with_edges,
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
    "sage_normalize": partial(sage_pair, normalize=True),
    "sage_bias": partial(sage_pair, bias=False),
}


def part_of(tensors, name):
    """A tensor by its name, or one of the equal parts that ours keep apart."""
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
        for name, parameter in mine.items():
            parameter.normal_()
            place = part_of(other, names[name])
            place.copy_(parameter.view_as(place))
    assert set(names) == set(mine)
    if ours.edge_channels:
        features = torch.randn(graph.num_edges, 3, dtype=torch.float64)
        graph = Graph(graph.edge_index, graph.num_nodes, edge_attr=features)
    x = torch.randn(graph.num_nodes, 5, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(graph.num_nodes, ours.width, dtype=torch.float64)
    out, expected = ours(x, graph), theirs(x, graph.edge_index, **graph.of_edges(slice(None)))
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    (grad_x,) = torch.autograd.grad(out, x, direction, retain_graph=True)
    (expected_x,) = torch.autograd.grad(expected, x, direction, retain_graph=True)
    torch.testing.assert_close(grad_x, expected_x, rtol=1e-11, atol=1e-12)
    out.backward(direction)
    expected.backward(direction)
    gradients = {name: parameter.grad for name, parameter in other.items()}
    for name, parameter in mine.items():
        wanted = part_of(gradients, names[name]).view_as(parameter)
        torch.testing.assert_close(parameter.grad, wanted, rtol=1e-11, atol=1e-11, msg=name)
