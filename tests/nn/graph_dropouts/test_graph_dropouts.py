"""What is dropped of the graph in training, how often, and what stays."""

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.functional.sparse import drop_entries
from gnn_depth.nn.graph_dropouts import DropEdge, DropMessage, DropNode, DropSens
from gnn_depth.nn.layers import GCN, Mean
from gnn_depth.registry import registered
from tests.nn.layers.variants import VARIANTS, features, make
from tests.reference import agree

DROPPING = {
    name: cls
    for name, cls in registered("graph_dropout").items()
    if cls.__module__.startswith("gnn_depth.") and name != "none"
}
every_dropping = pytest.mark.parametrize("name", DROPPING)

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))


def edges(graph):
    return list(zip(graph.source.tolist(), graph.target.tolist()))


def mirrored(graph):
    return Graph(torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1), graph.num_nodes)


@pytest.fixture
def large():
    return Graph(torch.randint(300, (2, 20_000)), 300)


@every_dropping
def test_what_stays_is_sorted_and_as_a_new_graph_of_these_edges(name, graph):
    for _ in range(5):
        some = DROPPING[name](0.4)(graph)
        new = Graph(some.edge_index, 9)
        assert torch.equal(some.edge_index, new.edge_index)
        assert torch.equal(some.ptr, new.ptr)
        some_looped, looped = some.with_self_loops(), new.with_self_loops()
        assert torch.equal(some_looped.edge_index, looped.edge_index)
        assert torch.equal(some_looped.gcn_weights(X.dtype), looped.gcn_weights(X.dtype))


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_drop_edge_drops_a_share_p_of_the_edges_each_by_itself(undirected, p, large):
    large = mirrored(large) if undirected else large
    kept = DropEdge(p, undirected)(large)
    drawn = large.num_edges / (2 if undirected else 1)
    assert abs(kept.num_edges / large.num_edges - (1 - p)) < 5 * (p * (1 - p) / drawn) ** 0.5
    # Each by itself: by target the number of kept edges varies as a binomial does, twice as much at
    # a node's own pairs.
    expected = large.in_degree * (1 - p)
    deviation = ((kept.in_degree - expected).square() / (expected * p)).mean()
    assert 0.7 < deviation < 1.4


def test_drop_node_drops_all_edges_of_a_share_p_of_the_nodes(large):
    kept = DropNode(0.3)(large)
    cut_off = (kept.in_degree == 0) & (torch.bincount(kept.source, minlength=300) == 0)
    assert abs(cut_off.double().mean() - 0.3) < 5 * (0.21 / 300) ** 0.5
    stays = ~cut_off[large.source] & ~cut_off[large.target]
    assert torch.equal(kept.edge_index, large.edge_index[:, stays])


def test_drop_sens_drops_more_edges_into_nodes_of_more_neighbours_and_no_self_loop():
    # Node i hears from i + 1 others: nodes 0, 1, 2 and 9 are dropped with 0.1, 0.1^(1/2), ..., 0.5.
    pairs = [(100 + other, node) for node in range(10) for other in range(node + 1)]
    loops = [(node, node) for node in range(10)]
    graph = Graph(torch.tensor(pairs + loops).t(), 200)
    kept = torch.zeros(10)
    for _ in range(400):
        thin = DropSens()(graph)
        proper = thin.source != thin.target
        assert int((~proper).sum()) == 10
        kept += torch.bincount(thin.target[proper], minlength=200)[:10]
    dropped = 1 - kept / 400 / torch.arange(1, 11)
    wanted = (0.1 ** (1 / torch.arange(1, 11))).clamp_max(0.5)
    assert (dropped - wanted).abs().max() < 0.06


#: Layers that drop entries of messages, with options.
DROPS_MESSAGES = {
    name: VARIANTS[name]
    for name in VARIANTS
    if registered("layer")[VARIANTS[name][0]].drops_messages
}


@pytest.mark.parametrize("variant", DROPS_MESSAGES)
def test_messages_without_dropped_entries_and_their_gradients_are_those_of_the_layer(
    variant, graph
):
    """p so small that nothing is dropped: the second way of computing the layer is the first."""
    layer = make(variant)
    x = features(graph)
    plain = layer(x, graph)
    other = layer(x, DropMessage(1e-12)(graph))
    agree(other, plain, [x, *layer.parameters()], 1e-7, allow_unused=True)


def test_drop_message_drops_entries_of_weighted_messages_one_by_one_and_scales_the_others():
    # Node 0 hears from 1,000 others, with a self-loop; every message is 1 before its weight.
    pairs = torch.stack([torch.arange(1, 1001), torch.zeros(1000, dtype=torch.long)])
    graph = DropMessage(0.3)(Graph(pairs, 1001))
    layer = Mean(50, 50)
    heard = layer(torch.ones(1001, 50), graph)[0]
    # Each channel is a mean of 1,000 entries that are 0 or 1 / 0.7, drawn for each channel anew.
    assert abs(heard.mean() - 1) < 5 * (0.3 / 0.7 / 50_000) ** 0.5
    assert 0.5 < heard.var() / (0.3 / 0.7 / 1000) < 1.7
    entries = drop_entries(torch.ones(1000, 50), graph)
    assert set(entries.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.7))}
    kept = (entries > 0).double()
    assert abs((kept[1:] * kept[:-1]).mean() - 0.49) < 0.02
    assert abs((kept[:, 1:] * kept[:, :-1]).mean() - 0.49) < 0.02


def test_both_directions_of_repeated_edges_and_self_loops_are_dropped_together(graph):
    whole = mirrored(graph)
    sizes = set()
    for _ in range(30):
        kept = edges(DropEdge(0.5, undirected=True)(whole))
        assert all(kept.count((i, j)) == kept.count((j, i)) for i, j in kept)
        sizes.add(len(kept))
    assert len(sizes) > 3
    assert any(
        DropEdge(0.5)(whole).reverse is None for _ in range(5)
    )  # directed dropping breaks pairs up


@every_dropping
def test_a_stack_drops_in_training_only_and_all_its_layers_see_one_graph(name, graph):
    stack = DeepGNN(6, 3, GCN, 3, 4, graph_dropout=DROPPING[name](0.5))
    seen = []
    for layer in stack.layers:
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1]))
    with torch.random.fork_rng():
        out = stack(X, graph)
    assert seen[0] is seen[1] is seen[2] is not graph
    thin = DeepGNN(6, 3, GCN, 3, 4)
    thin.load_state_dict(stack.state_dict())
    if not stack.graph_dropout.of_messages:
        torch.testing.assert_close(out, thin(X, seen[0]))
    stack.eval()
    torch.testing.assert_close(stack(X, graph), thin(X, graph))
    assert seen[3] is graph
