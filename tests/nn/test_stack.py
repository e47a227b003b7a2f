import copy
from functools import partial

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.functional import aggregate
from gnn_depth.nn.layers import GAT, GCN, GCNII, GATv2
from gnn_depth.nn.norms import LayerNorm, LipschitzNorm, PairNorm
from gnn_depth.nn.parts import Skip
from gnn_depth.nn.skips import Residual
from gnn_depth.registry import registered
from tests.nn.stacks import Oscillator

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))


def test_a_stack_with_encoder_and_decoder_is_its_parts_in_order(graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=2), 2, 4, [LayerNorm], Residual, activation="elu")
    h0 = stack.encoder(X)
    h1 = stack.skips[0](torch.nn.functional.elu(stack.norms[0][0](stack.layers[0](h0, graph), graph)), [h0], graph)
    h2 = h1 + stack.norms[1][0](stack.layers[1](h1, graph), graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(h2))


def test_a_bare_stack_is_its_layers_with_activations_between_and_nothing_after(graph):
    stack = DeepGNN(6, 3, partial(GATv2, bias=False), 2, 4, [LayerNorm], encoder="none", decoder="none")
    h1 = torch.relu(stack.norms[0][0](stack.layers[0](X, graph), graph))
    torch.testing.assert_close(stack(X, graph), stack.layers[1](h1, graph))


def test_without_a_decoder_the_heads_of_the_last_layer_are_averaged(graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=4), 1, 4, encoder="none", decoder="none")
    out = stack.layers[0](X, graph)
    torch.testing.assert_close(stack(X, graph), (out[:, :3] + out[:, 3:6] + out[:, 6:9] + out[:, 9:]) / 4)


@pytest.mark.parametrize("last", [False, True])
def test_an_activation_follows_the_last_layer_only_on_request(graph, last):
    stack = DeepGNN(6, 3, GCN, 1, 4, last_activation=last)
    h = stack.layers[0](stack.encoder(X), graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(torch.relu(h) if last else h))


def test_an_activation_follows_the_encoder_on_request(graph):
    stack = DeepGNN(6, 3, GCN, 1, 4, first_activation=True, activation="elu")
    h = torch.nn.functional.elu(stack.encoder(X))
    torch.testing.assert_close(stack(X, graph), stack.decoder(stack.layers[0](h, graph)))


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


def test_identity_is_an_activation(graph):
    stack = DeepGNN(6, 3, partial(GCN, bias=False), 3, 4, activation="identity", encoder="none", decoder="none")
    torch.testing.assert_close(stack(2 * X, graph), 2 * stack(X, graph))


def test_norms_go_where_their_base_class_says():
    stack = DeepGNN(6, 3, GAT, 2, 4, norm=[LipschitzNorm, PairNorm, partial(LayerNorm, eps=1e-3)])
    for layer, norms in zip(stack.layers, stack.norms, strict=True):
        assert [type(norm) for norm in layer.score_norms] == [LipschitzNorm]
        assert [type(norm) for norm in norms] == [PairNorm, LayerNorm]


def test_norms_are_made_for_the_width_and_the_heads_of_their_layer():
    stack = DeepGNN(6, 3, partial(GAT, heads=2), 1, 4, norm=[LipschitzNorm, LayerNorm])
    assert stack.layers[0].score_norms[0].heads == 2
    assert stack.norms[0][0].channels == 8


def test_score_norms_reach_the_last_layer_without_a_decoder():
    stack = DeepGNN(6, 3, GAT, 2, 4, norm=[LipschitzNorm, LayerNorm], decoder="none")
    assert [len(layer.score_norms) for layer in stack.layers] == [1, 1]
    assert len(stack.norms) == 1


def test_a_norm_without_a_place_says_which_layers_have_one():
    with pytest.raises(ValueError, match=r"'lipschitz'.*'gcn'.*gat.*'spectral'"):
        DeepGNN(6, 3, GCN, norm=[LipschitzNorm])


def test_a_feature_norm_that_no_layer_has_room_for_is_refused():
    with pytest.raises(ValueError, match="'pair'.*decoder"):
        DeepGNN(6, 3, GAT, num_layers=1, norm=[LipschitzNorm, PairNorm], decoder="none")


def test_a_class_that_is_no_norm_is_refused():
    with pytest.raises(ValueError, match="Linear.*FeatureNorm"):
        DeepGNN(6, 3, GCN, norm=[torch.nn.Linear])
    with pytest.raises(ValueError, match="functools.partial"):
        DeepGNN(6, 3, GCN, norm=[lambda width: LayerNorm(width)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "none", "last_activation": True}, "last_activation needs a decoder"),
        ({"encoder": "none", "first_activation": True}, "first_activation needs an encoder"),
        ({"encoder": "none", "decoder": "none", "outer_dropout": 0.5}, "linear encoder or decoder, and there is neit"),
    ],
)
def test_options_without_anything_to_act_on_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DeepGNN(6, 3, GCN, **options)


def test_dropout_acts_in_training_only(graph):
    stack = DeepGNN(6, 3, GCN, 2, 4, dropout=0.5)
    assert not torch.equal(stack(X, graph), stack(X, graph))
    stack.eval()
    assert torch.equal(stack(X, graph), stack(X, graph))


def test_the_structure_is_computed_once_for_all_layers_and_steps(graph, monkeypatch):
    made = []
    original = Graph._add_self_loops
    monkeypatch.setattr(Graph, "_add_self_loops", lambda self: made.append(1) or original(self))
    stack = DeepGNN(6, 3, GAT, 5, 4)
    for _ in range(3):
        stack(X, graph)
    assert made == [1]


class Oldest(Skip):
    """Adds the first state of all."""

    reads = "all"

    def forward(self, update, states, graph):
        return update + states[0]


@pytest.mark.parametrize("skip", [Oldest, Residual])
def test_a_skip_sees_every_earlier_state_if_it_reads_them_and_the_layers_input_otherwise(graph, skip):
    stack = DeepGNN(6, 3, GCN, 3, 4, skip=skip)
    seen = []
    for joined in stack.skips:
        joined.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[1])))
    out = stack(X, graph)
    assert seen == ([1, 2, 3] if skip is Oldest else [1, 1, 1])
    h = first = stack.encoder(X)
    for position, layer in enumerate(stack.layers):
        update = layer(h, graph)
        h = (first if skip is Oldest else h) + (torch.relu(update) if position < 2 else update)
    torch.testing.assert_close(out, stack.decoder(h))


def test_a_deep_stack_is_permutation_equivariant(graph):
    stack = DeepGNN(6, 3, partial(GAT, heads=2), 8, 4, [LipschitzNorm, PairNorm], Residual, activation="elu").double()
    order = torch.randperm(9)
    renumbered = Graph(torch.argsort(order)[graph.edge_index], 9)
    x = X.double()
    torch.testing.assert_close(stack(x[order], renumbered), stack(x, graph)[order])


@pytest.mark.parametrize(
    ("channels", "encoder", "answer"),
    [(6, "embedding", "linear or none"), ((4, 3), "linear", "2 columns.*embedding")],
)
def test_an_encoder_that_does_not_take_such_features_is_refused(channels, encoder, answer):
    with pytest.raises(ValueError, match=answer):
        DeepGNN(channels, 3, GCN, encoder=encoder)


def test_norms_after_the_skip_connection_act_on_what_is_joined(graph):
    stack = DeepGNN(6, 3, GCN, 2, 4, [LayerNorm], Residual, norm_after_skip=True)
    h0 = stack.encoder(X)
    h1 = stack.norms[0][0](torch.relu(stack.layers[0](h0, graph)) + h0, graph)
    h2 = stack.norms[1][0](stack.layers[1](h1, graph) + h1, graph)
    torch.testing.assert_close(stack(X, graph), stack.decoder(h2))


def test_norms_after_the_skip_have_the_width_of_what_is_joined(graph):
    class Concatenate(Skip):
        def __init__(self, widths, out_channels):
            super().__init__(widths, out_channels)
            self.width = widths[-1] + out_channels

        def forward(self, update, states, graph):
            return torch.cat([states[-1], update], 1)

    stack = DeepGNN(6, 3, GCN, 2, 4, [LayerNorm], Concatenate, norm_after_skip=True)
    assert [norms[0].channels for norms in stack.norms] == [8, 12]
    assert stack(X, graph).shape == (9, 3)


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


class JoinsAll(Skip):
    """The sum of all states, for skips that read more than the last one."""

    reads = "all"

    def forward(self, update, states, graph):
        return update + sum(states[1:], states[0])


SKIPS = {name: cls for name, cls in registered("skip").items() if cls.__module__.startswith("gnn_depth.")}
PRUNED = {
    "gat": {"layer": partial(GAT, heads=2), "norm": [LipschitzNorm, LayerNorm]},
    "bare": {"layer": partial(GATv2, bias=False), "encoder": "none", "decoder": "none"},
    "gcnii": {"layer": GCNII, "first_activation": True, "last_activation": True},
    "second state": {"skip": Oscillator},
    "all states": {"skip": JoinsAll},
    **{
        f"{name}, norm {when}": {"norm": [LayerNorm], "skip": cls, "norm_after_skip": when == "after"}
        for name, cls in SKIPS.items()
        for when in ("before", "after")
    },
    **{
        f"{name}, jump {jump}": {"norm": [LayerNorm], "skip": cls, "jump": jump}
        for name, cls in SKIPS.items()
        for jump in ("max", "cat")
        if (name, jump) != ("dense", "max")
    },
}


class Messages(Skip):
    """Adds the sum of the neighbours' states."""

    takes_blocks = False

    def forward(self, update, states, graph):
        return update + aggregate(states[-1].new_ones(graph.num_edges), states[-1], graph)


def test_a_skip_that_passes_messages_gets_the_whole_graph(graph):
    stack = DeepGNN(6, 3, GCN, 3, 4, skip=Messages)
    torch.testing.assert_close(stack(X, graph, 2), stack(X, graph)[:2])


def test_copies_have_lists_of_their_own_blocks():
    twin = copy.deepcopy(DeepGNN(6, 3, GCN, 3, 4, skip=Residual))
    assert all(layer is block.layer for layer, block in zip(twin.layers, twin.blocks, strict=True))
    assert len(list(twin.parameters())) == len(twin.state_dict())


@pytest.mark.parametrize("kind", PRUNED)
@pytest.mark.parametrize("read", [1, 5, 9])
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


def test_a_norm_that_looks_at_other_nodes_keeps_all_of_them(chain):
    stack = DeepGNN(6, 3, GCN, 2, 4, [PairNorm])
    torch.testing.assert_close(stack(X, chain, 2), stack(X, chain)[:2])


@pytest.mark.parametrize("rows", [8, 10])
def test_features_of_more_or_fewer_nodes_than_the_graph_has_are_refused(graph, rows):
    with pytest.raises(ValueError, match=f"{rows} nodes.*9"):
        DeepGNN(6, 3, GCN)(torch.randn(rows, 6), graph)


def test_an_edge_index_does_where_a_graph_does(graph):
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=4)
    assert torch.equal(stack(X, graph.edge_index.flip(1)), stack(X, graph))


def test_features_of_another_width_are_refused_with_both_widths(graph):
    with pytest.raises(ValueError, match=r"5.*in_channels=8"):
        DeepGNN(8, 3)(torch.randn(graph.num_nodes, 5), graph)
