import torch
from torch_geometric.nn import DiffGroupNorm as Reference

from gnn_depth.graph import Graph
from gnn_depth.nn.norms import DiffGroupNorm
from tests.reference import drawn


def test_it_agrees_with_pytorch_geometric_running_averages_included(graph):
    norm = drawn(DiffGroupNorm(4, groups=3, weight=0.7, eps=1e-3, momentum=0.3))
    peer = Reference(in_channels=4, groups=3, lamda=0.7, eps=1e-3, momentum=0.3).double()
    with torch.no_grad():
        peer.lin.weight.copy_(norm.lin.weight)
        peer.norm.weight.copy_(norm.gamma.flatten())
        peer.norm.bias.copy_(norm.beta.flatten())
    for _ in range(3):
        x = torch.randn(9, 4, dtype=torch.float64)
        torch.testing.assert_close(norm(x, graph), peer(x))
    torch.testing.assert_close(norm.running_mean.flatten(), peer.norm.running_mean)
    torch.testing.assert_close(norm.running_var.flatten(), peer.norm.running_var)
    torch.testing.assert_close(norm.eval()(x, graph), peer.eval()(x))


def test_nodes_that_differ_by_a_hundred_thousandth_of_their_size_keep_their_deviation(graph):
    x = 1000 + 0.01 * torch.randn(9, 4)
    norm = DiffGroupNorm(4, groups=1, weight=1.0)
    added = norm(x, graph) - x
    centred = (x.double() - x.double().mean(0)).float()
    torch.testing.assert_close(
        added, centred / (centred.square().mean(0) + 1e-5).sqrt(), rtol=0.01, atol=0.01
    )


def test_one_node_in_training_changes_no_average():
    norm = DiffGroupNorm(4)
    before = [buffer.clone() for buffer in norm.buffers()]
    norm(torch.randn(1, 4), Graph(torch.zeros(2, 0, dtype=torch.long), 1))
    assert all(torch.equal(old, new) for old, new in zip(before, norm.buffers()))
