"""Smoothing as the layer does it: the distance from the limit of its propagation, in float64."""

import math

import networkx as nx
import numpy as np
import pytest
import torch
from torch import nn

import gnn_depth
from gnn_depth.diagnostics.measures import energy_normalized, projection, relative_similarity
from gnn_depth.nn.layers import GAT, GCN, GCNII, GIN, SAGE

DEPTH, WIDTH = 400, 4
MEASURES = ["projection", "gradient_projection", "energy_normalized"]


def edges_of(graph):
    edges = torch.tensor(list(graph.edges)).t()
    return torch.cat([edges, edges.flip(0)], 1)


GRAPHS = {
    "star": edges_of(nx.star_graph(49)),
    "power law": edges_of(nx.barabasi_albert_graph(100, 2, seed=0)),
    "grid": edges_of(nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 6))),
    "random": edges_of(nx.gnm_random_graph(80, 120, seed=1)),  # with isolated nodes
}


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
        (lambda: GAT(WIDTH, WIDTH), 1, np.ones_like, None),
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
    with gnn_depth.watch(model, "layers.*", MEASURES) as watched:
        loss = (model(x, gnn_depth.Graph(edges, count)) * weights).sum()
        gradients = torch.autograd.grad(loss, model.states[:-1], retain_graph=True)
        loss.backward()
        if left is None:
            with pytest.warns(UserWarning, match="GAT is not known"):
                watched.step()
        else:
            watched.step()
    found = watched.frame().pivot_table(
        index="measure", columns="layer", values="value", dropna=False
    )
    basis = eigenspace(edges, count, loops, right)
    expected = [distance(state, basis) for state in model.states[:-1]]
    assert found.loc["projection"].to_numpy() == pytest.approx(expected, rel=1e-9, abs=2e-14)
    energies = [energy_normalized(state, edges).item() for state in model.states[:-1]]
    assert found.loc["energy_normalized"].to_numpy() == pytest.approx(energies, rel=1e-9, abs=1e-28)
    if left is None:
        assert found.loc["gradient_projection"].isna().all()
    else:
        basis = eigenspace(edges, count, loops, left)
        expected = [distance(gradient, basis) for gradient in gradients]
        values = found.loc["gradient_projection"].to_numpy()
        assert values == pytest.approx(expected, rel=1e-9, abs=5e-13)


@pytest.mark.parametrize(("name", "floor"), [("star", 0.46), ("power law", 0.2)])
def test_a_smoothed_gcn_has_no_distance_from_its_limit_and_a_mu_that_stays(name, floor):
    edges = GRAPHS[name]
    count = int(edges.max()) + 1
    model = Linear(lambda: GCN(WIDTH, WIDTH))
    out = model(torch.randn(count, WIDTH, dtype=torch.float64), gnn_depth.Graph(edges, count))
    root = torch.bincount(edges[1]).double().add(1).sqrt()
    assert projection(out, root).item() < 1e-14
    assert energy_normalized(out, edges).item() < 1e-28
    assert relative_similarity(out).item() > floor


def test_energy_normalized_is_that_of_the_normalised_laplacian_at_any_scale():
    edges = GRAPHS["power law"]
    x = torch.randn(100, 3, dtype=torch.float64)
    adjacency = torch.zeros(100, 100, dtype=torch.float64)
    adjacency[edges[1], edges[0]] = 1
    scale = adjacency.sum(1).add(1).rsqrt()
    laplacian = torch.eye(100) - scale[:, None] * (adjacency + torch.eye(100)) * scale
    expected = (x.t() @ laplacian @ x).trace() / x.square().sum()
    for factor in (1.0, 1e-50, 1e50):
        assert energy_normalized(factor * x, edges).item() == pytest.approx(expected.item())


def test_projection_is_between_0_and_1_and_undefined_for_zeros_and_infinities():
    direction = torch.tensor([1.0, 2.0, 0.0, 3.0])
    component = torch.tensor([0, 0, 1, 1])
    along = direction[:, None] * torch.tensor([[2.0], [2.0], [-5.0], [-5.0]])
    assert projection(along, direction, component) < 1e-15
    across = torch.tensor([[2.0], [-1.0], [4.0], [0.0]])
    assert projection(across, direction, component) == pytest.approx(1)
    assert projection(torch.zeros(4, 1), direction).isnan()
    assert projection(torch.full((4, 1), math.inf), direction).isnan()


@pytest.mark.parametrize("layer", [GIN, GCNII])  # of directed edges GCNII's is unknown backwards
def test_an_unknown_limit_is_nan_with_a_note(layer):
    layers, x = nn.ModuleList([layer(WIDTH, WIDTH)]), torch.randn(50, WIDTH, requires_grad=True)
    with gnn_depth.watch(layers, "*", MEASURES) as watched:
        layers[0](x, gnn_depth.Graph(GRAPHS["star"][:, 3:], 50)).sum().backward()
        with pytest.warns(UserWarning, match="is not known"):
            watched.step()
    found = watched.frame().set_index("measure").value
    assert math.isnan(found["gradient_projection"])
    assert math.isnan(found["projection"]) == (layer is GIN)
