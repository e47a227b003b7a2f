"""Our layers against PyTorch Geometric's, with equal parameters, in float64, gradients too."""

import pytest
import torch
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv

from gnn_depth.nn.layers import GAT, GCN, GATv2


def gcn_pair():
    ours, theirs = GCN(5, 3).double(), GCNConv(5, 3).double()
    return ours, theirs, {"lin.weight": "lin.weight", "bias": "bias"}


def gat_pair():
    ours, theirs = GAT(5, 3, heads=2).double(), GATConv(5, 3, heads=2).double()
    names = {"lin.weight": "lin.weight", "att_src": "att_src", "att_dst": "att_dst", "bias": "bias"}
    return ours, theirs, names


def gatv2_pair(share):
    ours = GATv2(5, 3, heads=2, share_weights=share, bias=False).double()
    theirs = GATv2Conv(5, 3, heads=2, share_weights=share, bias=False).double()
    names = {"lin_src.weight": "lin_l.weight", "att": "att"} | ({} if share else {"lin_dst.weight": "lin_r.weight"})
    return ours, theirs, names


@pytest.mark.parametrize(
    "pair", [gcn_pair, gat_pair, lambda: gatv2_pair(True), lambda: gatv2_pair(False)], ids=["gcn", "gat", "v2s", "v2"]
)
def test_outputs_and_all_gradients_agree(pair, graph):
    ours, theirs, names = pair()
    mine, other = dict(ours.named_parameters()), dict(theirs.named_parameters())
    with torch.no_grad():
        for name, parameter in mine.items():
            parameter.normal_()
            other[names[name]].copy_(parameter.view_as(other[names[name]]))
    assert set(names) == set(mine)
    x = torch.randn(graph.num_nodes, 5, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(graph.num_nodes, ours.width, dtype=torch.float64)
    out, expected = ours(x, graph), theirs(x, graph.edge_index)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    (grad_x,) = torch.autograd.grad(out, x, direction, retain_graph=True)
    (expected_x,) = torch.autograd.grad(expected, x, direction, retain_graph=True)
    torch.testing.assert_close(grad_x, expected_x, rtol=1e-11, atol=1e-12)
    out.backward(direction)
    expected.backward(direction)
    for name, parameter in mine.items():
        torch.testing.assert_close(
            parameter.grad, other[names[name]].grad.view_as(parameter), rtol=1e-11, atol=1e-11, msg=name
        )
