"""Properties of the registered feature norms, beside those of tests/testing/test_built_in.py."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch_geometric.nn import DiffGroupNorm as PyG

import gnn_depth.nn  # noqa: F401  (registers the parts)
from gnn_depth.graph import Graph
from gnn_depth.nn.norms import (
    ContraNorm,
    DiffGroupNorm,
    GraphNorm,
    MeanNorm,
    NeighborNorm,
    NodeNorm,
    PairNorm,
    PairNormSI,
)
from gnn_depth.nn.parts import FeatureNorm
from gnn_depth.registry import registered
from gnn_depth.testing.subjects import two_graphs
from tests import reference

NORMS = {name: cls for name, cls in registered("norm").items() if issubclass(cls, FeatureNorm)}
NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
one_graph = Graph(NO_EDGES, 6)
every_norm = pytest.mark.parametrize("name", NORMS)


def members(node, graph):
    """The nodes of a node's graph."""
    return graph.node_to_graph == graph.node_to_graph[node]


def every_node(row, graph):
    return torch.stack([row(node) for node in range(graph.num_nodes)])


def mean(x, graph):
    return every_node(lambda i: x[i] - x[members(i, graph)].mean(0), graph)


def pair(x, graph, scale):
    centred = mean(x, graph)

    def row(i):
        square = centred[members(i, graph)].square().sum(1).mean()
        return scale * centred[i] / (square + 1e-5).sqrt()

    return every_node(row, graph)


def pair_si(x, graph, scale):
    centred = mean(x, graph)
    return scale * centred / (centred.square().sum(1, keepdim=True) + 1e-5).sqrt()


def graph_norm(x, graph, alpha, gamma, beta):
    def row(i):
        rows = x[members(i, graph)]
        centre = alpha * rows.mean(0)
        return gamma * (x[i] - centre) / ((rows - centre).square().mean(0) + 1e-5).sqrt() + beta

    return every_node(row, graph)


def neighbor(x, graph, gamma, beta, per_channel):
    def row(i):
        sources = graph.source[graph.target == i]
        rows = x[[i, *sources[sources != i].tolist()]]
        over = {"dim": 0} if per_channel else {}
        return (x[i] - rows.mean(**over)) / (rows.var(**over, correction=0) + 1e-5).sqrt()

    return gamma * every_node(row, graph) + beta


def node(x, p):
    deviation = (x.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    return x / deviation ** (1 / p)


LOOPS = {
    "mean": (MeanNorm(4), mean),
    "graph": (GraphNorm(4), graph_norm),
    "pair": (PairNorm(4, scale=2.0), lambda x, graph: pair(x, graph, 2.0)),
    "pair_si": (PairNormSI(4, scale=2.0), lambda x, graph: pair_si(x, graph, 2.0)),
    "node": (NodeNorm(4), lambda x, graph: node(x, 1.0)),
    "node of order 3": (NodeNorm(4, p=3.0), lambda x, graph: node(x, 3.0)),
    "neighbor": (NeighborNorm(4), partial(neighbor, per_channel=True)),
    "neighbor of all channels": (
        NeighborNorm(4, per_channel=False),
        partial(neighbor, per_channel=False),
    ),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_values_and_gradients_are_those_of_a_loop(kind):
    (norm, loop), x = LOOPS[kind], torch.randn(14, 4, dtype=torch.float64, requires_grad=True)
    graph, own = two_graphs()[0].with_self_loops(), list(reference.drawn(norm).parameters())
    reference.agree(norm(x, graph), loop(x, graph, *own), [x, *own])


@pytest.mark.parametrize(
    ("half", "convert"), [(torch.bfloat16, False), (torch.float16, True)], ids=str
)
@every_norm
def test_half_precision_comes_back_as_it_came_and_near_what_float32_gives(
    name, convert, half, graph
):
    norm = NORMS[name](4)
    for where, nodes in ((graph, 9), (Graph(NO_EDGES, 1), 1)):
        x = torch.randn(nodes, 4).to(half)
        expected = norm.float()(x.float(), where)
        norm, x = norm.to(half) if convert else norm, x.requires_grad_()
        out = norm(x, where)
        (out * torch.randn_like(out)).sum().backward()
        assert out.dtype == half
        assert x.grad.isfinite().all()
        torch.testing.assert_close(out.float(), expected, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("norm", [PairNorm, PairNormSI])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_squares_of_half_precision_neither_overflow_nor_vanish(norm, dtype):
    x = torch.randn(6, 4)
    for size in (1e-3, 1e3):
        out = norm(4)((size * x).to(dtype), one_graph)
        torch.testing.assert_close(out.float(), norm(4)(size * x, one_graph), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("per_channel", [True, False])
def test_neighbours_that_differ_by_a_hundred_thousandth_of_their_size_keep_their_deviation(
    per_channel, graph
):
    x = (1000 + 0.01 * torch.randn(9, 4)).requires_grad_()
    norm = NeighborNorm(4, per_channel=per_channel)
    exact = x.detach().double().requires_grad_()
    expected = neighbor(exact, graph, norm.gamma.double(), norm.beta.double(), per_channel)
    out = norm(x, graph)
    torch.testing.assert_close(out.double(), expected, rtol=0.01, atol=0.01)
    direction = torch.randn(9, 4)
    (gradient,) = torch.autograd.grad(out, x, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction.double())
    torch.testing.assert_close(
        gradient.double(), wanted, rtol=0.02, atol=0.02 * wanted.abs().max().item()
    )


def test_norms_that_read_one_node_say_so():
    assert {name for name, cls in NORMS.items() if cls.nodewise} == {"layer", "node", "none"}


def test_a_node_moves_away_from_the_nodes_that_send_it_no_edge(graph):
    x = torch.randn(9, 4, dtype=torch.float64)
    rows = []
    for node in range(9):
        neighbours = set(graph.source[graph.target == node].tolist())
        others = [other for other in range(9) if other == node or other not in neighbours]
        similarity = F.cosine_similarity(x[node][None], x[others]) / 0.7
        pull = (similarity.softmax(0)[:, None] * x[others]).sum(0)
        rows.append(F.layer_norm(1.4 * x[node] - 0.4 * pull, (4,)))
    norm = ContraNorm(4, scale=0.4, temperature=0.7)
    torch.testing.assert_close(norm(x, graph), torch.stack(rows), rtol=1e-9, atol=1e-9)


def test_diff_group_norm_agrees_with_pytorch_geometric_running_averages_included(graph):
    norm = reference.drawn(DiffGroupNorm(4, groups=3, weight=0.7))
    peer = PyG(in_channels=4, groups=3, lamda=0.7).double()
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
    norm(torch.randn(1, 4), Graph(NO_EDGES, 1))
    assert all(torch.equal(old, new) for old, new in zip(before, norm.buffers()))
