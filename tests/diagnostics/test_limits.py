"""Smoothing as the layer does it: the distance from the limit of its propagation, in float64."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import gnn_depth
from gnn_depth.diagnostics.measures import projection
from gnn_depth.nn.layers import GAT, GATE, GCN, GCNII, GIN, SAGE, Transformer
from tools.attack.numbers import layers as attack

DEPTH, WIDTH = 400, 4
PROJECTIONS = ["projection", "gradient_projection"]
#: Measures that are small where a stack has smoothed its features, and still exact.
SMALL = [
    "energy_normalized",
    "representation_similarity_relative",
    "dirichlet_energy",
    "effective_rank",
]


def edges_of(graph):
    edges = torch.tensor(list(graph.edges)).t()
    return torch.cat([edges, edges.flip(0)], 1)


GRAPHS = {
    "star": edges_of(nx.star_graph(49)),
    "power law": edges_of(nx.barabasi_albert_graph(100, 2, seed=0)),
    "grid": edges_of(nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 6))),
    "random": edges_of(nx.gnm_random_graph(80, 120, seed=1)),  # with isolated nodes
}
DIRECTED = torch.tensor(list(nx.gnp_random_graph(60, 0.1, seed=0, directed=True).edges)).t()


class Linear(nn.Module):
    """Layers without activations, whose matrices keep lengths."""

    def __init__(self, make):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(make() for _ in range(DEPTH)).double()
        for name, parameter in self.named_parameters():
            if name.endswith(("lin.weight", "lin_src.weight")):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, x, graph):
        self.states = [x]
        for layer in self.layers:
            self.states.append(layer(self.states[-1], graph))
        return self.states[-1]


def eigenspace(edges, count, loops, right):
    """The dominant eigenspace of the propagation matrix, by NumPy alone."""
    adjacency = np.zeros((count, count))
    np.add.at(adjacency, (edges[1].numpy(), edges[0].numpy()), 1)
    adjacency += loops * np.eye(count)
    reached = np.linalg.matrix_power(np.minimum(adjacency + np.eye(count), 1), count) > 0
    degree = adjacency.sum(1)
    columns = []
    for component in np.unique(reached, axis=0):
        if (component * right(degree)).any():  # not an isolated node without a loop
            columns.append(component * right(degree))
    matrix = np.stack(columns, 1)
    return matrix / np.linalg.norm(matrix, axis=0)


def distance(x, basis):
    x = x.detach().numpy()
    return np.linalg.norm(x - basis @ (basis.T @ x)) / np.linalg.norm(x)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(
    ("layer", "loops", "right", "left"),
    [
        (lambda: GCN(WIDTH, WIDTH), 1, np.sqrt, np.sqrt),
        (lambda: SAGE(WIDTH, WIDTH, root_weight=False), 0, np.ones_like, np.asarray),
        (lambda: GAT(WIDTH, WIDTH), 1, np.ones_like, np.asarray),
    ],
)
def test_projection_of_a_linear_stack_is_the_distance_from_the_dominant_eigenvectors(
    name, layer, loops, right, left
):
    edges = GRAPHS[name]
    count = int(edges.max()) + 1
    model, draws = Linear(layer), torch.Generator().manual_seed(0)
    x, weights = torch.randn(2, count, WIDTH, dtype=torch.float64, generator=draws)
    x.requires_grad_()
    with gnn_depth.watch(model, "layers.*", PROJECTIONS + SMALL) as watched:
        loss = (model(x, gnn_depth.Graph(edges, count)) * weights).sum()
        gradients = torch.autograd.grad(loss, model.states[:-1], retain_graph=True)
        loss.backward()
        watched.step()
    found = watched.frame().pivot_table(
        index="measure", columns="layer", values="value", dropna=False
    )
    basis = eigenspace(edges, count, loops, right)
    expected = [distance(state, basis) for state in model.states[:-1]]
    assert found.loc["projection"].to_numpy() == pytest.approx(expected, rel=1e-9, abs=2e-14)
    basis = eigenspace(edges, count, loops, left)
    expected = [distance(gradient, basis) for gradient in gradients]
    values = found.loc["gradient_projection"].to_numpy()
    assert values == pytest.approx(expected, rel=1e-9, abs=5e-13)
    columns = []
    for place in range(0, DEPTH, 40):
        columns.append(attack.Column(model.layers[place]))
        columns[-1].states = [model.states[place].detach().numpy()]
        columns[-1].gradients, columns[-1].of_parameters = [gradients[place].numpy()], np.ones(1)
    expected = attack.expected_values(columns, edges.numpy())
    some = watched.frame().query("layer % 40 == 1")
    assert list(attack.different(some, {measure: expected[measure] for measure in SMALL})) == []


def attention_of(layer, x, edges, count):
    """The weights of a GAT with one head as a matrix, by NumPy alone."""
    h = mapped(layer.lin, x)
    of_target = h @ layer.att_dst[0].detach().numpy()
    of_source = h @ layer.att_src[0].detach().numpy()
    scores = of_target[:, None] + of_source
    loops = torch.arange(count).repeat(2, 1)
    return softmax_of(np.where(scores > 0, scores, 0.2 * scores), torch.cat([edges, loops], 1))


def softmax_of(scores, edges):
    mask = np.zeros_like(scores)
    mask[edges[1].numpy(), edges[0].numpy()] = 1
    weights = np.exp(scores) * mask
    return weights / weights.sum(1, keepdims=True)


def mapped(lin, x):
    return lin(x).detach().numpy()


def transformer_of(layer, x, edges, count):
    query, key = mapped(layer.lin_query, x), mapped(layer.lin_key, x)
    return softmax_of(query @ key.T / WIDTH**0.5, edges)


def gate_of(layer, x, edges, count):
    pairs = mapped(layer.lin_dst, x)[:, None] + mapped(layer.lin_src, x)
    active = np.maximum(pairs, 0)
    scores = active @ layer.att_src[0].detach().numpy()
    own = active @ layer.att_dst[0].detach().numpy()
    np.fill_diagonal(scores, own.diagonal())
    return softmax_of(scores, torch.cat([edges, torch.arange(count).repeat(2, 1)], 1))


def gcn_of(layer, x, edges, count):
    adjacency = np.eye(count)
    adjacency[edges[1].numpy(), edges[0].numpy()] = 1
    root = np.sqrt(adjacency.sum(1))
    return adjacency / root[:, None] / root


@pytest.mark.parametrize(
    ("layer", "matrix_of", "edges"),
    [
        (GAT, attention_of, GRAPHS["star"]),
        (GAT, attention_of, GRAPHS["power law"]),
        (GAT, attention_of, DIRECTED),
        (GCN, gcn_of, DIRECTED),
        (Transformer, transformer_of, GRAPHS["power law"]),
        (GATE, gate_of, GRAPHS["power law"]),
    ],
)
def test_the_limit_of_gradients_is_the_left_eigenvector_of_the_weights_at_the_state(
    layer, matrix_of, edges
):
    torch.manual_seed(0)
    count, layer = int(edges.max()) + 1, layer(WIDTH, WIDTH).double()
    x = torch.randn(count, WIDTH, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(count, WIDTH, dtype=torch.float64)
    with gnn_depth.watch(nn.ModuleList([layer]), "*", ["gradient_projection"]) as watched:
        (layer(x, gnn_depth.Graph(edges, count)) * weights).sum().backward()
        watched.step()
    values, vectors = np.linalg.eig(matrix_of(layer, x, edges, count).T)
    left = vectors[:, [values.real.argmax()]].real
    (found,) = watched.frame().value
    assert found == pytest.approx(distance(x.grad, left / np.linalg.norm(left)), rel=1e-2)
    assert found < 0.95


def test_projection_is_between_0_and_1_and_undefined_for_zeros_and_infinities():
    direction = torch.tensor([1.0, 2.0, 0.0, 3.0])
    component = torch.tensor([0, 0, 1, 1])
    along = direction[:, None] * torch.tensor([[2.0], [2.0], [-5.0], [-5.0]])
    assert projection(along, direction, component) < 1e-15
    across = torch.tensor([[2.0], [-1.0], [4.0], [0.0]])
    assert projection(across, direction, component) == pytest.approx(1)
    assert projection(torch.zeros(4, 1), direction).isnan()
    assert projection(torch.full((4, 1), math.inf), direction).isnan()


# GCNII keeps several values on this graph, where some leaves read from none but themselves.
@pytest.mark.parametrize("layer", [GIN, GCNII])
def test_an_unknown_limit_is_nan_with_a_note(layer):
    layers, x = nn.ModuleList([layer(WIDTH, WIDTH)]), torch.randn(50, WIDTH, requires_grad=True)
    with gnn_depth.watch(layers, "*", PROJECTIONS) as watched:
        layers[0](x, gnn_depth.Graph(GRAPHS["star"][:, 3:], 50)).sum().backward()
        with pytest.warns(UserWarning, match="is not known"):
            watched.step()
    found = watched.frame().set_index("measure").value
    assert found.isna().all()


def test_a_graph_that_is_divided_among_processes_has_no_projection_and_a_note_says_so():
    layers, graph = nn.ModuleList([GCN(WIDTH, WIDTH)]), gnn_depth.Graph(GRAPHS["star"], 50)
    graph.is_shard = True
    with gnn_depth.watch(layers, "*", ["projection"]) as watched:
        layers[0](torch.randn(50, WIDTH), graph).sum().backward()
        with pytest.warns(UserWarning, match="divided among processes"):
            watched.step()
    assert watched.frame().value.isna().all()
