from functools import partial

import pytest
import torch
from torch_geometric.data import Data

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import GAT, GCN, GCNII, GATv2
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm, PairNorm
from gnn_depth.nn.parts import Skip
from gnn_depth.nn.skips import Dense, FeedForward, Ordered, Residual
from gnn_depth.registry import registered
from tests.nn.stacks import Oscillator

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))


def test_a_stack_with_encoder_and_decoder_is_its_parts_in_order(graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=2), 2, 4, [LayerNorm], Residual, activation="elu")
    h0 = stack.encoder(X)
    h1 = stack.skips[0](
        torch.nn.functional.elu(stack.norms[0][0](stack.layers[0](h0, graph), graph)), [h0], graph
    )
    h2 = h1 + stack.norms[1][0](stack.layers[1](h1, graph), graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(h2))


def test_without_a_decoder_the_heads_of_the_last_layer_are_averaged(graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=4), 1, 4, encoder="none", decoder="none")
    out = stack.layers[0](X, graph)
    torch.testing.assert_close(
        stack(X, graph), (out[:, :3] + out[:, 3:6] + out[:, 6:9] + out[:, 9:]) / 4
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_an_activation_follows_the_encoder_and_the_last_layer_only_on_request(graph, first, last):
    stack = DeepGNN(6, 3, GCN, 1, 4, first_activation=first, last_activation=last, activation="elu")
    elu, h = torch.nn.functional.elu, stack.encoder(X)
    h = stack.layers[0](elu(h) if first else h, graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(elu(h) if last else h))


@pytest.mark.parametrize("ends", [{"decoder": "none"}, {"encoder": "none"}])
def test_outer_dropout_acts_on_linear_ends_in_training_only(ends, graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=2), 1, 4, outer_dropout=0.5, **ends)
    seen = []
    linear = stack.encoder if "decoder" in ends else stack.decoder
    linear.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    assert not torch.equal(stack(X, graph), stack(X, graph))
    assert all(0.1 < (x == 0).float().mean() < 0.9 for x in seen)
    stack.eval()
    assert torch.equal(stack(X, graph), stack(X, graph))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": [LipschitzNorm]}, r"'lipschitz'.*'gcn'.*gat.*'spectral'"),
        (
            {"layer": GAT, "num_layers": 1, "norm": [LipschitzNorm, PairNorm], "decoder": "none"},
            "'pair'.*decoder",
        ),
        (
            {"encoder": "none", "decoder": "none", "outer_dropout": 0.5},
            "linear encoder or decoder, and there is neit",
        ),
        ({"in_channels": (4, 3)}, "2 columns.*embedding"),
    ],
)
def test_parts_and_options_without_a_place_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DeepGNN(**{"in_channels": 6, "out_channels": 3, "layer": GCN} | options)


class JoinsAll(Skip):
    """Adds all earlier states."""

    reads = "all"

    def forward(self, update, states, graph):
        return update + sum(states[1:], states[0])


def test_a_skip_sees_the_states_that_it_reads(graph):
    stack = DeepGNN(6, 3, GCN, 3, 4, skip=JoinsAll)
    states = [stack.encoder(X)]
    for position, layer in enumerate(stack.layers):
        update = layer(states[-1], graph)
        states.append(sum(states) + (torch.relu(update) if position < 2 else update))
    torch.testing.assert_close(stack(X, graph), stack.decoder(states[-1]))


def test_norms_after_the_skip_act_on_what_is_joined_and_have_its_width(graph):
    stack = DeepGNN(6, 3, GCN, 2, 4, [LayerNorm], Dense, norm_after_skip=True)
    assert [norms[0].channels for norms in stack.norms] == [8, 12]
    h0 = stack.encoder(X)
    h1 = stack.norms[0][0](torch.cat([h0, torch.relu(stack.layers[0](h0, graph))], 1), graph)
    h2 = stack.norms[1][0](torch.cat([h1, stack.layers[1](h1, graph)], 1), graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(h2))


def test_shared_layers_of_equal_shape_are_one_and_normed_once(graph):
    stack = DeepGNN(6, 3, GAT, 4, 5, [LipschitzNorm, LayerNorm], encoder="none", share_layers=True)
    first, *others = stack.layers
    assert first is not others[0]
    assert all(layer is others[0] for layer in others)
    assert len(others[0].score_norms) == 1
    assert len({id(norms[0]) for norms in stack.norms}) == 4
    stack(X, graph).sum().backward()
    again = DeepGNN(6, 3, GAT, 4, 5, [LipschitzNorm, LayerNorm], encoder="none", share_layers=True)
    again.load_state_dict(stack.state_dict())
    torch.testing.assert_close(again(X, graph), stack(X, graph))


SKIPS = {
    name: cls
    for name, cls in registered("skip").items()
    if cls.__module__.startswith("gnn_depth.") and cls.takes_blocks
}
SKIPS["ordered"] = partial(Ordered, chunks=2)
SKIPS["feed_forward"] = partial(FeedForward, norm="layer")  # batch norm reads all nodes
PRUNED = {
    "gat": {"layer": partial(GAT, heads=2), "norm": [LipschitzNorm, LayerNorm]},
    "bare": {"layer": partial(GATv2, bias=False), "encoder": "none", "decoder": "none"},
    "gcnii": {"layer": GCNII, "first_activation": True, "last_activation": True},
    "second state": {"skip": Oscillator},
    "all states": {"skip": JoinsAll},
    **{
        f"{name}, norm {when}": {
            "norm": [LayerNorm],
            "skip": cls,
            "norm_after_skip": when == "after",
        }
        for name, cls in SKIPS.items()
        for when in ("before", "after")
    },
    **{
        f"jump {jump}": {"norm": [LayerNorm], "skip": Residual, "jump": jump}
        for jump in ("max", "cat")
    },
}


@pytest.mark.parametrize("kind", PRUNED)
@pytest.mark.parametrize("read", [1, 5])
def test_what_nobody_reads_is_left_out_and_changes_nothing(kind, read, chain):
    stack, x = DeepGNN(6, 3, num_layers=2, hidden_channels=6, **PRUNED[kind]).double(), X.double()
    with torch.no_grad():
        for parameter in stack.skips.parameters():  # scales that begin as zero hide what they scale
            parameter.normal_()
    rows = []
    for layer in stack.layers:
        layer.register_forward_hook(lambda _, inputs, out: rows.append((len(inputs[0]), len(out))))
    whole = stack(x, chain)[:read]
    wanted = torch.autograd.grad(whole.square().sum(), list(stack.parameters()), allow_unused=True)
    rows.clear()
    some = stack(x, chain, read)
    got = torch.autograd.grad(some.square().sum(), list(stack.parameters()), allow_unused=True)
    torch.testing.assert_close(some, whole, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(got, wanted):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)
    if read == 1:
        assert rows[-1][1] == read
        assert rows[0][0] < 9


@pytest.mark.parametrize(
    ("shape", "message"),
    [((8, 6), "8 nodes.*9"), ((10, 6), "10 nodes.*9"), ((9, 5), "5.*in_channels=6")],
)
def test_features_of_another_number_of_nodes_or_width_are_refused(graph, shape, message):
    with pytest.raises(ValueError, match=message):
        DeepGNN(6, 3, GCN)(torch.randn(shape), graph)


def test_an_edge_index_or_a_data_does_where_a_graph_does(graph):
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=4)
    assert torch.equal(stack(X, graph.edge_index.flip(1)), stack(X, graph))
    weight, batch = torch.rand(graph.num_edges), torch.arange(9) // 5
    data = Data(x=X, edge_index=graph.edge_index, edge_weight=weight, batch=batch)
    several = Graph(graph.edge_index, 9, batch, edge_weight=weight)
    assert torch.equal(stack(data, pool="mean"), stack(X, several, pool="mean"))
    with pytest.raises(ValueError, match="a graph or edge_index, or a Data"):
        stack(X)
