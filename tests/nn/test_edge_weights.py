"""Edge weights: the layers that read them against PyTorch Geometric or a plain loop, in float64,
gradients too."""

import pytest
import torch
from torch_geometric.nn import GCN2Conv, GCNConv, GraphConv

from gnn_depth import DeepGNN, Graph
from gnn_depth.nn.layers import GAT, GCN, GCNII, GIN, SAGE, PyGConv

NODES = 9


@pytest.fixture
def weighted():
    """Edges, weights and features; some self-loops, one weight of zero, a node without edges."""
    draws = torch.Generator().manual_seed(0)
    edges = torch.unique(torch.randint(NODES - 1, (2, 30), generator=draws), dim=1)
    weight = torch.rand(edges.shape[1], generator=draws, dtype=torch.float64)
    weight[3] = 0
    x = torch.randn(NODES, 4, generator=draws, dtype=torch.float64)
    return edges, weight, x


def neighbours(edges, weight):
    """The weighted adjacency as a matrix: targets x sources."""
    return torch.zeros(NODES, NODES, dtype=torch.float64).index_put((edges[1], edges[0]), weight)


def of_gcn(edges, weight):
    conv, layer = GCNConv(4, 3).double(), GCN(4, 3).double()
    layer.load_state_dict(conv.state_dict())
    return layer, lambda x: conv(x, edges, weight), [(layer.lin.weight, conv.lin.weight)]


def of_sage(edges, weight):
    layer = SAGE(4, 3).double()
    matrix = neighbours(edges, weight)
    mean = matrix / matrix.sum(1, keepdim=True).clamp_min(1e-30)
    weights = (layer.lin.weight, layer.lin_root.weight, layer.bias)
    own, root, bias = (weight.detach().clone().requires_grad_() for weight in weights)
    pairs = [(layer.lin.weight, own), (layer.lin_root.weight, root)]
    return layer, lambda x: mean @ x @ own.T + x @ root.T + bias, pairs


def of_gin(edges, weight):
    layer, conv = GIN(4, 3, eps=0.3).double(), GraphConv(4, 3, bias=False).double()
    with torch.no_grad():
        conv.lin_rel.weight.copy_(layer.lin.weight)
        conv.lin_root.weight.copy_(1.3 * layer.lin.weight)
    out = layer.lin_out
    return layer, lambda x: out((conv(x, edges, weight) + layer.bias).relu()), []


def of_pyg(edges, weight):
    layer = PyGConv(4, 3, "GraphConv").double()
    return layer, lambda x: layer.conv(x, edges, weight), []


@pytest.mark.parametrize("pair", [of_gcn, of_sage, of_gin, of_pyg])
def test_outputs_and_gradients_are_those_of_the_reference(weighted, pair):
    edges, weight, x = weighted
    layer, reference, parameters = pair(edges, weight)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    out, expected = layer(ours, Graph(edges, NODES, edge_weight=weight)), reference(theirs)
    torch.testing.assert_close(out, expected)
    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    grads = [one.grad.clone() for one, _ in parameters]
    layer.zero_grad()
    (expected * direction).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    for grad, (_, other) in zip(grads, parameters, strict=True):
        torch.testing.assert_close(grad, other.grad)


def test_gcnii_reads_the_weights_of_the_normalised_adjacency(weighted):
    edges, weight, x = weighted
    conv = GCN2Conv(4, alpha=0.1, theta=0.5, layer=1).double()
    layer = GCNII(4, 4, alpha=0.1, theta=0.5).double()
    layer.enter_stack(1, 4)
    with torch.no_grad():
        layer.lin.weight.copy_(conv.weight1.T)
    torch.testing.assert_close(
        layer(x, Graph(edges, NODES, edge_weight=weight), x), conv(x, x, edges, weight)
    )


@pytest.mark.parametrize("layer", ["gcn", "sage", "gin"])
def test_weights_of_one_change_nothing_and_blocks_have_the_rows_of_the_whole(weighted, layer):
    edges, weight, x = weighted
    torch.manual_seed(0)
    stack = DeepGNN(4, 2, layer=layer, num_layers=3, hidden_channels=5).double().eval()
    ones = Graph(edges, NODES, edge_weight=torch.ones_like(weight))
    torch.testing.assert_close(stack(x, ones), stack(x, edges))
    graph = Graph(edges, NODES, edge_weight=weight)
    whole = stack(x, graph)
    assert not torch.allclose(whole, stack(x, edges))
    torch.testing.assert_close(stack(x, graph, num_outputs=4), whole[:4])


def test_layers_that_do_not_read_weights_refuse_them_by_name(weighted):
    edges, weight, x = weighted
    graph = Graph(edges, NODES, edge_weight=weight)
    for layer, name in ((GAT, "gat"), ({"name": "pyg", "conv": "GATConv"}, "pyg")):
        with pytest.raises(ValueError, match=f"weights.*{name}.*gcn, gcnii, gin, .*sage"):
            DeepGNN(4, 2, layer=layer).double()(x, graph)


@pytest.mark.parametrize(
    ("weight", "words"),
    [(torch.ones(2), r"\(3,\)"), (torch.tensor([1, -1.0, 1]), r"edge_weight\[1\] is -1")],
)
def test_weights_that_do_not_fit_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), 3, edge_weight=weight)
