"""Edge features: the layers that read them against PyTorch Geometric in float64, gradients too, and in data sets."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GATv2Conv, GINEConv, TransformerConv

from gnn_depth import DeepGNN, Graph
from gnn_depth.data import MiniBatches, PyG, PyGData
from gnn_depth.data.graph_sets import subset
from gnn_depth.data.mini_batches import induced_subgraph
from gnn_depth.nn.layers import GAT, GIN, GATv2, Transformer

NODES, CHANNELS = 9, 3


@pytest.fixture
def featured():
    """Edges, features of edges and of nodes; some self-loops, and a node without edges."""
    draws = torch.Generator().manual_seed(0)
    edges = torch.unique(torch.randint(NODES - 1, (2, 30), generator=draws), dim=1)
    features = torch.randn(edges.shape[1], CHANNELS, generator=draws, dtype=torch.float64)
    return edges, features, torch.randn(NODES, 4, generator=draws, dtype=torch.float64)


def made(layer):
    layer.add_edge_features(CHANNELS)
    return layer.double()


# each: our layer, PyG's, and the names of our parameters under PyG's names
PAIRS = {
    "gat": lambda: (
        made(GAT(4, 3, heads=2)),
        GATConv(4, 3, heads=2, edge_dim=CHANNELS),
        {"lin": "lin", "att_dst": "att_dst", "att_src": "att_src", "att_edge": "att_edge", "lin_edge": "lin_edge"},
    ),
    "gatv2": lambda: (
        made(GATv2(4, 3, heads=2)),
        GATv2Conv(4, 3, heads=2, edge_dim=CHANNELS),
        {"lin_l": "lin_src", "lin_r": "lin_dst", "att": "att", "lin_edge": "lin_edge"},
    ),
    "transformer": lambda: (
        made(Transformer(4, 3, heads=2)),
        TransformerConv(4, 3, heads=2, edge_dim=CHANNELS),
        {f"lin_{one}": f"lin_{one}" for one in ("key", "query", "value", "edge")} | {"lin_skip": "lin_root"},
    ),
    "gin": lambda: (
        made(GIN(4, 3, eps=0.3)),
        GINEConv(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)), eps=0.3, edge_dim=CHANNELS),
        {"nn.0.weight": "lin.weight", "nn.0.bias": "bias", "nn.2": "lin_out", "lin": "lin_edge"},
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_outputs_and_gradients_are_those_of_pyg(featured, name):
    torch.manual_seed(0)
    layer, conv, names = PAIRS[name]()
    conv, ours, theirs = conv.double(), dict(layer.named_parameters()), {}
    for key, parameter in conv.named_parameters():
        found = next((new + key[len(old) :] for old, new in names.items() if f"{key}.".startswith(f"{old}.")), None)
        theirs[found] = parameter
        with torch.no_grad():  # biases of PyG's linear maps without ours are zero
            parameter.zero_() if found not in ours else parameter.copy_(ours[found].view_as(parameter))
    assert set(ours) - {"bias"} <= set(theirs)
    edges, features, x = featured
    x_ours, x_theirs = (x.clone().requires_grad_() for _ in range(2))
    out = layer(x_ours, Graph(edges, NODES, edge_attr=features))
    expected = conv(x_theirs, edges, features)
    torch.testing.assert_close(out, expected)
    direction = torch.randn_like(out)
    (out * direction).sum().backward()
    (expected * direction).sum().backward()
    torch.testing.assert_close(x_ours.grad, x_theirs.grad)
    for key in set(ours) & set(theirs):
        torch.testing.assert_close(ours[key].grad, theirs[key].grad.view_as(ours[key]), msg=key)
    assert layer(x, Graph(edges, NODES, edge_attr=2 * features)).ne(out).any()


@pytest.mark.parametrize("layer", [*PAIRS, {"name": "pyg", "conv": "GATv2Conv"}], ids=[*PAIRS, "pyg"])
def test_stacks_read_the_features_of_blocks_as_of_the_whole_and_recompute_alike(featured, layer):
    edges, features, x = featured
    graph, found = Graph(edges, NODES, edge_attr=features), {}
    for options in ({}, {"checkpoint_every": 2}, {"encoder": "none"}):
        torch.manual_seed(0)
        stack = DeepGNN(
            4, 2, layer=layer, num_layers=3, hidden_channels=4, edge_channels=CHANNELS, init="default", **options
        )
        stack.double()
        whole = stack(x, graph)
        torch.testing.assert_close(stack(x, graph, num_outputs=4), whole[:4])
        whole.square().sum().backward()
        assert all(weight.grad.isfinite().all() for weight in stack.parameters())
        found[str(options)] = [weight.grad for weight in stack.parameters()]
    for one, other in zip(found["{}"], found["{'checkpoint_every': 2}"], strict=True):
        torch.testing.assert_close(one, other)


def test_scores_of_gat_and_gatv2_keep_the_law_and_others_say_that_they_have_none(featured):
    edges, features, x = featured
    graph = Graph(edges, NODES, edge_attr=features)
    for layer in ("gat", "gatv2"):
        options = {"layer": layer, "num_layers": 3, "hidden_channels": 4, "edge_channels": CHANNELS}
        stack = DeepGNN(4, 2, init="balanced_xavier", **options).double()
        link, scale = stack.links()[1], torch.tensor([2.0, 0.5, 3.0, 1.0], dtype=torch.float64)
        before = stack(x, graph)
        with torch.no_grad():
            for share, power in [(one, 1) for one in link.incoming] + [
                (one, -1) for one in (*link.attention, *link.outgoing)
            ]:
                factor = (scale**power).view({0: (-1, 1), 1: (1, -1), None: share.parameter.shape}[share.axis])
                share.parameter.mul_(factor)
        torch.testing.assert_close(stack(x, graph), before)
    for layer in ("transformer", "gin"):
        with pytest.raises(ValueError, match=layer):
            DeepGNN(4, 2, layer=layer, init="balanced_xavier", edge_channels=CHANNELS)


def test_features_follow_their_edges_into_parts_of_graphs_and_the_mean_is_of_the_edges_that_remain(featured):
    edges, features, x = featured
    y = torch.arange(NODES) % 2
    one = Data(x=x.float(), edge_index=edges, edge_attr=features, y=y)
    graph = Graph.from_data(one)
    of_edge = {(s, t): row for s, t, row in zip(*edges.tolist(), features, strict=True)}
    nodes = torch.tensor([6, 1, 3, 0])
    part = induced_subgraph(graph, nodes)
    for source, target, row in zip(*nodes[part.edge_index].tolist(), part.edge_attr, strict=True):
        assert torch.equal(row, of_edge[source, target])
    kept = graph.keeping(torch.arange(graph.num_edges) % 2 == 0)
    whole = kept.with_self_loops()
    for node in range(NODES):
        mine = [row for s, t, row in zip(kept.source, kept.target, kept.edge_attr, strict=True) if s != t == node]
        expected = torch.stack(mine).mean(0) if mine else torch.zeros(CHANNELS, dtype=torch.float64)
        torch.testing.assert_close(whole.edge_attr[(whole.source == node) & (whole.target == node)], expected[None])
    data = PyGData(one)
    assert data.num_edge_features == MiniBatches(data, parts=2).num_edge_features == CHANNELS
    assert len({set_.checksum for set_ in (data, PyGData(one, edge_features=False))}) == 2
    (batch, *_) = MiniBatches(data, "neighbor", parts=1).train_dataloader()
    assert batch.graph.edge_channels == CHANNELS


def test_a_column_of_integers_is_one_hot_over_all_graphs_and_batches_of_graphs_keep_theirs():
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    kinds = [torch.tensor([0, 1, 0]), torch.tensor([2, 2, 1])]
    graphs = [Data(num_nodes=3, edge_index=edges, edge_attr=kind, y=torch.tensor([k])) for k, kind in enumerate(kinds)]
    data = PyGData(graphs)
    assert data.num_edge_features == 3
    part = subset(data.batch, torch.tensor([1]))
    assert part.graph.edge_attr[part.graph.source].argmax(1).tolist() == [2, 1, 2]
    assert PyG("FakeDataset", options={"num_graphs": 4, "edge_dim": 2}).num_edge_features == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda graph: DeepGNN(4, 2)(torch.ones(NODES, 4), graph), "features.*gcn.*gat, gatv2, gin, transformer"),
        (lambda graph: DeepGNN(4, 2, layer="sage", edge_channels=3), "features.*sage.*gat, gatv2, gin, transformer"),
        (lambda graph: DeepGNN(4, 2, layer={"name": "pyg", "conv": "SAGEConv"}, edge_channels=3), "pyg.*edge_dim"),
        (
            lambda graph: DeepGNN(
                4, 2, layer={"name": "pyg", "conv": "GATConv", "options": {"edge_dim": 2}}, edge_channels=3
            ),
            "edge_dim is 2.*3",
        ),
        (lambda graph: DeepGNN(4, 2, layer="gat")(torch.ones(NODES, 4), graph), "3 features.*edge_channels=0"),
        (
            lambda graph: DeepGNN(4, 2, "gat", edge_channels=3)(torch.ones(NODES, 4), graph.edge_index),
            "have 0 features",
        ),
        (lambda graph: DeepGNN(4, 2, layer="gat", norm="lipschitz", edge_channels=3), "LipschitzNorm.*edge features"),
        (lambda graph: Graph(graph.edge_index, NODES, edge_attr=torch.ones(3)), r"edge_channels.*\(3,\)"),
        (
            lambda graph: Graph(graph.edge_index, NODES, edge_attr=torch.full((graph.num_edges, 2), torch.nan)),
            r"edge_attr\[0, 0\] is nan",
        ),
    ],
)
def test_features_that_nothing_reads_or_that_do_not_fit_are_refused(featured, make, words):
    edges, features, _ = featured
    graph = Graph(edges, NODES, edge_attr=features.float())
    with pytest.raises(ValueError, match=words):
        make(graph)
