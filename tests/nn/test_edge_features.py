"""Features and weights of edges in stacks and data sets; tests/nn/layers/test_against_pyg.py has the layers
that read them."""

import pytest
import torch

from gnn_depth import DeepGNN, Graph
from gnn_depth.data.mini_batches import induced_subgraph
from tests.nn.stacks import rescale

NODES, CHANNELS = 9, 3
LAYERS = ["gat", "gatv2", "transformer", "gin"]


@pytest.fixture
def featured():
    """Edges, features of edges and of nodes; some self-loops, and a node without edges."""
    draws = torch.Generator().manual_seed(0)
    edges = torch.unique(torch.randint(NODES - 1, (2, 30), generator=draws), dim=1)
    features = torch.randn(edges.shape[1], CHANNELS, generator=draws, dtype=torch.float64)
    return edges, features, torch.randn(NODES, 4, generator=draws, dtype=torch.float64)


@pytest.mark.parametrize(
    "layer", [*LAYERS, {"name": "pyg", "conv": "GATv2Conv"}], ids=[*LAYERS, "pyg"]
)
def test_stacks_read_the_features_of_blocks_as_of_the_whole_and_recompute_alike(featured, layer):
    edges, features, x = featured
    graph, found = Graph(edges, NODES, edge_attr=features), {}
    for options in ({}, {"checkpoint_every": 2}, {"encoder": "none"}):
        torch.manual_seed(0)
        sizes = {"num_layers": 3, "hidden_channels": 4, "edge_channels": CHANNELS}
        stack = DeepGNN(4, 2, layer=layer, init="default", **sizes, **options)
        stack.double()
        whole = stack(x, graph)
        torch.testing.assert_close(stack(x, graph, num_outputs=4), whole[:4])
        whole.square().sum().backward()
        assert all(weight.grad.isfinite().all() for weight in stack.parameters())
        found[str(options)] = [weight.grad for weight in stack.parameters()]
    for one, other in zip(found["{}"], found["{'checkpoint_every': 2}"], strict=True):
        torch.testing.assert_close(one, other)


def test_scores_with_edge_features_keep_the_law_or_are_refused(featured):
    edges, features, x = featured
    graph = Graph(edges, NODES, edge_attr=features)
    for layer in ("gat", "gatv2"):
        options = {"layer": layer, "num_layers": 3, "hidden_channels": 4, "edge_channels": CHANNELS}
        stack = DeepGNN(4, 2, init="balanced_xavier", **options).double()
        link, scale = stack.links()[1], torch.tensor([2.0, 0.5, 3.0, 1.0], dtype=torch.float64)
        before = stack(x, graph)
        with torch.no_grad():
            rescale(link, scale)
        torch.testing.assert_close(stack(x, graph), before)
    for layer in ("transformer", "gin"):
        with pytest.raises(ValueError, match=layer):
            DeepGNN(4, 2, layer=layer, init="balanced_xavier", edge_channels=CHANNELS)


def test_features_follow_their_edges_into_parts_of_graphs(featured):
    edges, features, _ = featured
    graph = Graph(edges, NODES, edge_attr=features)
    of_edge = {(s, t): row for s, t, row in zip(*edges.tolist(), features, strict=True)}
    nodes = torch.tensor([6, 1, 3, 0])
    part = induced_subgraph(graph, nodes)
    for source, target, row in zip(*nodes[part.edge_index].tolist(), part.edge_attr, strict=True):
        assert torch.equal(row, of_edge[source, target])
    kept = graph.keeping(torch.arange(graph.num_edges) % 2 == 0)
    whole = kept.with_self_loops()
    for node in range(NODES):
        into = (kept.target == node) & (kept.source != node)
        expected = torch.zeros(CHANNELS, dtype=torch.float64)
        if into.any():
            expected = kept.edge_attr[into].mean(0)
        loop = (whole.source == node) & (whole.target == node)
        torch.testing.assert_close(whole.edge_attr[loop], expected[None])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer": "sage", "edge_channels": 3}, "features.*sage.*gat, gatv2, gin, transformer"),
        ({"layer": "gat"}, "3 features.*edge_channels=0"),
        ({"layer": "gat", "norm": "lipschitz", "edge_channels": 3}, "LipschitzNorm.*edge features"),
    ],
)
def test_features_that_nothing_reads_or_of_another_number_are_refused(featured, options, words):
    edges, features, x = featured
    graph = Graph(edges, NODES, edge_attr=features.float())
    with pytest.raises(ValueError, match=words):
        DeepGNN(4, 2, **options)(x.float(), graph)


@pytest.mark.parametrize("layer", ["gcn", "sage", "gin"])
def test_weights_of_one_change_nothing_and_blocks_have_the_rows_of_the_whole(featured, layer):
    edges, features, x = featured
    torch.manual_seed(0)
    stack = DeepGNN(4, 2, layer=layer, num_layers=3, hidden_channels=5).double().eval()
    ones = Graph(edges, NODES, edge_weight=torch.ones(len(features), dtype=torch.float64))
    torch.testing.assert_close(stack(x, ones), stack(x, edges))
    graph = Graph(edges, NODES, edge_weight=features[:, 0].abs())
    whole = stack(x, graph)
    assert not torch.allclose(whole, stack(x, edges))
    torch.testing.assert_close(stack(x, graph, num_outputs=4), whole[:4])


def test_layers_that_do_not_read_weights_refuse_them_by_name(featured):
    edges, features, x = featured
    graph = Graph(edges, NODES, edge_weight=features[:, 0].abs())
    for layer, name in (("gat", "gat"), ({"name": "pyg", "conv": "GATConv"}, "pyg")):
        with pytest.raises(ValueError, match=f"weights.*{name}.*gcn, gcnii, gin, .*sage"):
            DeepGNN(4, 2, layer=layer).double()(x, graph)
