"""Layers made for depth: each against its formula with dense matrices, and the property it is for."""

import pytest
import torch
from torch_geometric.nn import GCN2Conv

from gnn_depth.graph import Graph
from gnn_depth.nn import DeepGNN
from gnn_depth.nn.layers import (
    ACM,
    GATE,
    GGNN,
    SWAN,
    Antisymmetric,
    Mean,
    ReactionDiffusion,
    Unitary,
)
from tests.reference import agree, drawn

DTYPE = torch.float64


def dense(graph, weights):
    """The matrix of a weighted sum over incoming edges."""
    matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=DTYPE)
    return matrix.index_put_((graph.target, graph.source), weights, accumulate=True)


def gcn_matrix(graph, self_loops=True):
    graph = graph.with_self_loops() if self_loops else graph
    return dense(graph, graph.gcn_weights(DTYPE))


@pytest.fixture
def undirected(graph):
    edges = torch.unique(graph.edge_index[:, graph.source != graph.target], dim=1)
    return Graph(torch.unique(torch.cat([edges, edges.flip(0)], 1), dim=1), 9)


def features(width=6):
    return torch.randn(9, width, dtype=DTYPE, requires_grad=True)


def antisymmetric(layer, x):
    """The argument of the step's tanh that all steps have."""
    weight = layer.lin.weight
    return x @ (weight - weight.t() - 0.2 * torch.eye(6, dtype=DTYPE)).t() + layer.bias


@pytest.mark.parametrize("aggregation", ["gcn", "sum"])
def test_an_antisymmetric_layer_is_its_formula(aggregation, graph):
    layer = drawn(Antisymmetric(6, 6, step_size=0.3, damping=0.2, aggregation=aggregation))
    x, matrix = features(), gcn_matrix(graph)
    if aggregation == "sum":
        matrix = dense(graph, graph.sum_weights(DTYPE))
    change = antisymmetric(layer, x) + matrix @ x @ layer.lin_neighbours.weight.t()
    agree(layer(x, graph), x + 0.3 * change.tanh(), [x, *layer.parameters()])


def test_swan_is_its_formula(graph):
    layer, x = drawn(SWAN(6, 6, step_size=0.3, damping=0.2, antisymmetry=0.7)), features()
    p = dense(graph, graph.mean_weights(DTYPE))
    space, symmetric = layer.lin_space.weight, layer.lin_symmetric.weight
    change = antisymmetric(layer, x) + gcn_matrix(graph, self_loops=False) @ x @ (space - space.t())
    change = change + 0.7 * (p - p.t()) @ x @ (symmetric + symmetric.t())
    agree(layer(x, graph), x + 0.3 * change.tanh(), [x, *layer.parameters()])


REACTIONS = {
    "blurring": lambda x, matrix: matrix @ (x - matrix @ x),
    "fisher": lambda x, _: x * (1 - x),
    "allen_cahn": lambda x, _: x * (1 - x**2),
    "zeldovich": lambda x, _: x * (x - x**2),
    "source": None,
}


@pytest.mark.parametrize("name", REACTIONS)
def test_a_step_of_reaction_and_diffusion_is_its_formula(name, graph):
    layer, x, first = drawn(ReactionDiffusion(6, 6, 0.4, name)), features(), features()
    matrix = gcn_matrix(graph)
    reaction = first if name == "source" else REACTIONS[name](x, matrix)
    change = layer.alpha.sigmoid() * (matrix @ x - x) + layer.beta * reaction
    agree(layer(x, graph, first), x + 0.4 * change, [x, *layer.parameters()])


@pytest.mark.parametrize("heads", [1, 3])
def test_gate_is_its_formula_pair_by_pair(heads, graph):
    layer, x = drawn(GATE(6, 4, heads=heads)), features()
    looped = graph.with_self_loops()
    src = layer.lin_src(x).view(9, heads, 4)
    dst = layer.lin_dst(x).view(9, heads, 4)
    rows = []
    for node in range(9):
        sources = looped.source[looped.target == node].tolist()
        scores = []
        for source in sources:
            att = layer.att_dst if source == node else layer.att_src
            scores.append((torch.relu(src[source] + dst[node]) * att).sum(-1))
        alpha = torch.stack(scores).softmax(0)
        rows.append((alpha[..., None] * src[sources]).sum(0).flatten())
    agree(layer(x, graph), torch.stack(rows) + layer.bias, [x, *layer.parameters()])


@pytest.mark.parametrize("layer_norm", [False, True])
def test_acm_is_its_formula(layer_norm, graph):
    layer, x = drawn(ACM(6, 4, layer_norm)), features()
    matrix = gcn_matrix(graph)
    low, high, own = (each.weight.t() for each in (layer.lin_low, layer.lin_high, layer.lin_own))
    channels = [
        torch.relu(matrix @ x @ low),
        torch.relu((torch.eye(9, dtype=DTYPE) - matrix) @ x @ high),
        torch.relu(x @ own),
    ]
    gates = []
    for number, channel in enumerate(channels):
        read = layer.norms[number](channel) if layer_norm else channel
        gates.append(read @ layer.gates[number])
    alpha = (torch.stack(gates, 1).sigmoid() @ layer.mix / 3).softmax(1)
    wanted = sum(3 * alpha[:, [number]] * channels[number] for number in range(3))
    agree(layer(x, graph), wanted, [x, *layer.parameters()])


def test_unitary_is_an_exponential_and_keeps_lengths_of_states_and_gradients(undirected):
    layer, x = Unitary(6, 6, bias=False).double(), features()
    weight = layer.lin.weight
    inner = ((weight.t() - weight) / 2).contiguous()
    generator = torch.kron(gcn_matrix(undirected, self_loops=False), inner)
    wanted = (torch.linalg.matrix_exp(generator) @ x.flatten()).reshape(9, 6)
    out = layer(x, undirected)
    torch.testing.assert_close(out, wanted, rtol=1e-6, atol=1e-6)
    direction = torch.randn_like(out)
    (gradient,) = torch.autograd.grad(out, x, direction)
    assert float((out.norm() / x.norm()).detach()) == pytest.approx(1, abs=1e-7)
    assert float(gradient.norm() / direction.norm()) == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("layer", [Antisymmetric, SWAN, ReactionDiffusion, Unitary, Mean, GGNN])
def test_a_state_that_is_too_narrow_is_refused_with_the_way_out(layer):
    with pytest.raises(
        ValueError, match=r"keeps its input, and 5 channels cannot hold 6: .*encoder"
    ):
        layer(6, 5)


def gcnii(**options):
    layer = {"name": "gcnii", "alpha": 0.2, "theta": 0.7}
    options = {"first_activation": True, "last_activation": True} | options
    return DeepGNN(6, 3, layer, 4, 5, **options).double()


def test_the_gcnii_of_its_paper_is_a_stack(graph):
    # Kinds of node that PyTorch Geometric treats as we do: no repeated edges and no self-loops.
    edges = torch.unique(graph.edge_index[:, graph.source != graph.target], dim=1)
    weight = torch.rand(edges.shape[1], dtype=torch.float64)
    stack, x = gcnii(), features()
    assert not any("depth" in name for name in stack.state_dict())
    first = h = torch.relu(stack.encoder(x))
    for position, layer in enumerate(stack.layers, start=1):
        conv = GCN2Conv(5, alpha=0.2, theta=0.7, layer=position).double()
        del conv.weight1
        conv.weight1 = layer.lin.weight.t()
        h = torch.relu(conv(h, first, edges, weight))
    ours = stack(x, Graph(edges, 9, edge_weight=weight))
    agree(ours, stack.decoder(h), [x, *stack.parameters()])


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"skip": "dense"}, "width 5.* layer 2, .*width 10"),
        ({"share_layers": True}, "share_layers false"),
    ],
)
def test_a_stack_in_which_gcnii_has_no_place_is_refused(options, answer):
    with pytest.raises(ValueError, match=answer):
        gcnii(**options)
