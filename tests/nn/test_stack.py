import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import JumpingKnowledge

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.parts import Skip
from gnn_depth.registry import registered
from tests.nn.stacks import Oscillator

X = torch.randn(9, 6, generator=torch.Generator().manual_seed(0))
GAT_OF_TWO = {"name": "gat", "heads": 2}


class JoinsAll(Skip):
    """Adds all earlier states."""

    reads = "all"

    def forward(self, update, states, graph):
        return update + sum(states[1:], states[0])


@pytest.mark.parametrize(
    "options",
    [
        {"layer": GAT_OF_TWO},
        {"first_activation": True},
        {"last_activation": True},
        {"skip": JoinsAll},
        {"skip": "initial_residual"},
        {"skip": "dense", "norm_after_skip": True},
        {"jump": "max"},
        {"jump": "cat", "skip": "none"},
    ],
    ids=str,
)
def test_a_stack_is_its_parts_in_order(options, graph):
    options = {"norm": "layer", "skip": "residual", "activation": "elu"} | options
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=4, **options)
    h, elu = stack.encoder(X), torch.nn.functional.elu
    states = [elu(h) if "first_activation" in options else h]
    for position, layer in enumerate(stack.layers):
        (norm,), skip = stack.norms[position], stack.skips[position]
        h = layer(states[-1], graph)
        if "norm_after_skip" not in options:
            h = norm(h, graph)
        if position < 2 or "last_activation" in options:
            h = elu(h)
        h = skip(h, states, graph)
        if "norm_after_skip" in options:
            h = norm(h, graph)
        states.append(h)
    if "jump" in options:
        h = JumpingKnowledge(options["jump"])(states[1:])
    torch.testing.assert_close(stack(X, graph), stack.decoder(h))


def test_without_a_decoder_the_heads_of_the_last_layer_are_averaged(graph):
    stack = DeepGNN(6, 3, {"name": "gat", "heads": 4}, 1, 4, encoder="none", decoder="none")
    out = stack.layers[0](X, graph)
    torch.testing.assert_close(
        stack(X, graph), (out[:, :3] + out[:, 3:6] + out[:, 6:9] + out[:, 9:]) / 4
    )


@pytest.mark.parametrize("ends", [{"decoder": "none"}, {"encoder": "none"}])
def test_outer_dropout_acts_on_linear_ends_in_training_only(ends, graph):
    stack = DeepGNN(6, 3, GAT_OF_TWO, 1, 4, outer_dropout=0.5, **ends)
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
        ({"norm": "lipschitz"}, r"'lipschitz'.*'gcn'.*gat.*'spectral'"),
        (
            {"layer": "gat", "num_layers": 1, "norm": ["lipschitz", "pair"], "decoder": "none"},
            "between layers.*decoder",
        ),
        (
            {"encoder": "none", "decoder": "none", "outer_dropout": 0.5},
            "linear encoder or decoder",
        ),
        ({"in_channels": (4, 3)}, "2 columns.*embedding"),
    ],
)
def test_parts_and_options_without_a_place_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DeepGNN(**{"in_channels": 6, "out_channels": 3} | options)


def test_shared_layers_of_equal_shape_are_one_and_normed_once(graph):
    options = {"norm": ["lipschitz", "layer"], "encoder": "none", "share_layers": True}
    stack = DeepGNN(6, 3, "gat", 4, 5, **options)
    first, *others = stack.layers
    assert first is not others[0]
    assert all(layer is others[0] for layer in others)
    assert len(others[0].score_norms) == 1
    assert len({id(norms[0]) for norms in stack.norms}) == 4
    stack(X, graph).sum().backward()
    again = DeepGNN(6, 3, "gat", 4, 5, **options)
    again.load_state_dict(stack.state_dict())
    torch.testing.assert_close(again(X, graph), stack(X, graph))


SKIPS = [
    name
    for name, cls in registered("skip").items()
    if cls.__module__.startswith("gnn_depth.") and cls.takes_blocks
]
OPTIONS = {"ordered": {"chunks": 2}}
PRUNED = {
    "gat": {"layer": GAT_OF_TWO, "norm": ["lipschitz", "layer"]},
    "bare": {"layer": "gatv2", "encoder": "none", "decoder": "none"},
    "gcnii": {"layer": "gcnii", "first_activation": True, "last_activation": True},
    "second state": {"skip": Oscillator},
    "all states": {"skip": JoinsAll},
    **{
        f"{name}, norm {when}": {
            "norm": "layer",
            "skip": {"name": name, **OPTIONS.get(name, {})},
            "norm_after_skip": when == "after",
        }
        for name in SKIPS
        for when in ("before", "after")
    },
    "jump": {"skip": "residual", "jump": "cat"},
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
        DeepGNN(6, 3)(torch.randn(shape), graph)


def test_an_edge_index_or_a_data_does_where_a_graph_does(graph):
    stack = DeepGNN(6, 3, num_layers=3, hidden_channels=4)
    assert torch.equal(stack(X, graph.edge_index.flip(1)), stack(X, graph))
    weight, batch = torch.rand(graph.num_edges), torch.arange(9) // 5
    data = Data(x=X, edge_index=graph.edge_index, edge_weight=weight, batch=batch)
    several = Graph(graph.edge_index, 9, batch, edge_weight=weight)
    assert torch.equal(stack(data, pool="mean"), stack(X, several, pool="mean"))
    with pytest.raises(ValueError, match="a graph or edge_index, or a Data"):
        stack(X)
