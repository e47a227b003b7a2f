"""Half-hop, FoSR, SDRF and BORF: against slow references, and by what their theory says."""

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from gnn_depth_remedies import BORF, SDRF, FoSR
from gnn_depth_remedies.rewiring import balanced_forman, ollivier_ricci
from scipy.optimize import linprog
from torch_geometric.data import Data

from gnn_depth.data import DataError

GRAPHS = {
    "barbell": nx.barbell_graph(5, 0),
    "random": nx.connected_watts_strogatz_graph(14, 4, 0.5, seed=1),
    "dense": nx.gnp_random_graph(9, 0.7, seed=2),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
    "tree": nx.balanced_tree(2, 3),
}
every_graph = pytest.mark.parametrize("name", GRAPHS)


def matrix(graph):
    return nx.to_numpy_array(graph, sorted(graph), dtype=bool)


def data_of(graph):
    edges, nodes = torch.from_numpy(np.stack(np.nonzero(matrix(graph)))), len(graph)
    x = torch.arange(3.0 * nodes).view(nodes, 3).sin()
    return Data(x=x, edge_index=edges, y=torch.arange(nodes) % 2, num_nodes=nodes)


def rewired(transform, graph, seed=0):
    torch.manual_seed(seed)
    found = matrix(graph)
    transform.rewire(found)
    assert np.array_equal(found, found.T)
    assert not found.diagonal().any()
    return found


def slow_forman(graph, i, j):
    """Definition 1 of Topping et al., with sets."""
    near = {node: set(graph[node]) for node in graph}
    d_i, d_j = len(near[i]), len(near[j])
    if min(d_i, d_j) == 1:
        return 0.0
    triangles = near[i] & near[j]
    value = 2 / d_i + 2 / d_j - 2
    value += 2 * len(triangles) / max(d_i, d_j) + len(triangles) / min(d_i, d_j)

    def squares(one, other):
        """Neighbours of one on 4-cycles without diagonals, with the number of these cycles."""
        found = {}
        for k in near[one] - near[other] - {other}:
            ends = (near[k] & near[other]) - near[one] - {one}
            if ends:
                found[k] = len(ends)
        return found

    at_i, at_j = squares(i, j), squares(j, i)
    if at_i:
        gamma = max([*at_i.values(), *at_j.values()])
        value += (len(at_i) + len(at_j)) / gamma / max(d_i, d_j)
    return value


def slow_ricci(graph, u, v):
    """1 - W by a linear program over all pairs of nodes."""
    nodes = sorted(graph)
    length = dict(nx.all_pairs_shortest_path_length(graph))
    far = 10 * len(nodes)
    cost = np.array([[length[a].get(b, far) for b in nodes] for a in nodes], float)
    start = np.array([1 / graph.degree(u) if a in graph[u] else 0 for a in nodes])
    end = np.array([1 / graph.degree(v) if a in graph[v] else 0 for a in nodes])
    leaves = np.kron(np.eye(len(nodes)), np.ones(len(nodes)))
    arrives = np.kron(np.ones(len(nodes)), np.eye(len(nodes)))
    both = np.concatenate([leaves, arrives]), np.concatenate([start, end])
    return 1 - linprog(cost.ravel(), A_eq=both[0], b_eq=both[1]).fun


@every_graph
def test_balanced_forman_curvature_is_that_of_the_definition(name):
    graph = GRAPHS[name]
    for i, j in graph.edges:
        wanted = slow_forman(graph, i, j)
        assert balanced_forman(matrix(graph), i, j) == pytest.approx(wanted)
        assert balanced_forman(matrix(graph), j, i) == pytest.approx(wanted)


@every_graph
def test_ollivier_ricci_curvature_is_that_of_a_linear_program_over_all_nodes(name):
    graph = GRAPHS[name]
    for u, v in list(graph.edges)[:12]:
        assert ollivier_ricci(matrix(graph), u, v)[0] == pytest.approx(slow_ricci(graph, u, v))


def slow_fosr(graph, num_edges, steps):
    """FoSR with loops over pairs and a dense matrix."""
    adjacent = matrix(graph).astype(float)
    nodes = len(adjacent)
    x = torch.rand(nodes, dtype=torch.float64).numpy() * 2 - 1

    def step(x):
        root = adjacent.sum(1) ** 0.5
        normed = adjacent / root[:, None] / root[None]
        x = x - root * (x @ root) / (root @ root)
        x = x + normed @ x
        return x / np.linalg.norm(x)

    for _ in range(steps):
        x = step(x)
    for _ in range(num_edges):
        y = x / (adjacent.sum(1) + 1) ** 0.5
        pairs = [
            (y[i] * y[j], i, j)
            for i, j in itertools.combinations(range(nodes), 2)
            if not adjacent[i, j]
        ]
        if not pairs:
            break
        _, i, j = min(pairs)
        adjacent[i, j] = adjacent[j, i] = 1
        x = step(x)
    return adjacent.astype(bool)


@every_graph
def test_fosr_adds_the_edges_of_a_slow_reference(name):
    for num_edges, steps in ((1, 5), (6, 3), (500, 2)):
        found = rewired(FoSR(num_edges, steps), GRAPHS[name])
        torch.manual_seed(0)
        assert np.array_equal(found, slow_fosr(GRAPHS[name], num_edges, steps))


def test_sdrf_draws_pairs_with_the_softmax_of_their_gain(monkeypatch):
    graph = GRAPHS["tree"]
    edge = min(graph.edges, key=lambda edge: slow_forman(graph, *edge))
    near = [[node, *sorted(graph[node])] for node in edge]
    pairs = [pair for pair in itertools.product(*near) if len({*pair}) == 2]
    pairs = [pair for pair in pairs if not graph.has_edge(*pair)]
    gains = []
    for pair in pairs:
        more = graph.copy()
        more.add_edge(*pair)
        gains.append(slow_forman(more, *edge) - slow_forman(graph, *edge))

    def draw(chance, count):
        torch.testing.assert_close(chance, torch.tensor(gains).double().mul(3).softmax(0))
        return torch.tensor([2])

    monkeypatch.setattr(torch, "multinomial", draw)
    assert SDRF(tau=3.0)._draw_pair(matrix(graph), *edge) == pairs[2]


@every_graph
def test_sdrf_takes_the_extremes_of_all_curvatures_in_every_step(name):
    """The curvatures that it keeps from step to step are those of the graph."""
    transform, kept = SDRF(steps=7, tau=50.0, remove_above=0.4), []
    draw = transform._draw_pair

    def draw_pair(adjacent, *lowest):
        graph = nx.from_numpy_array(adjacent)
        every = [slow_forman(graph, *edge) for edge in graph.edges]
        kept.append(adjacent.copy())
        assert slow_forman(graph, *lowest) == pytest.approx(min(every))
        return draw(adjacent, *lowest)

    transform._draw_pair = draw_pair
    kept.append(rewired(transform, GRAPHS[name]))
    for before, after in itertools.pairwise(kept):
        removed = np.argwhere(np.triu(before & ~after))
        assert len(removed) <= 1
        for edge in removed:
            graph = nx.from_numpy_array(before | after)
            highest = max(slow_forman(graph, *each) for each in graph.edges)
            assert slow_forman(graph, *edge) == pytest.approx(highest)


def test_borf_bridges_the_lowest_curvature_and_removes_the_highest():
    graph = GRAPHS["barbell"]
    curvature = {edge: slow_ricci(graph, *edge) for edge in graph.edges}
    lowest = min(curvature, key=curvature.__getitem__)
    found = rewired(BORF(rounds=1, add=1, remove=0), graph)
    ((p, q),) = np.argwhere(np.triu(found & ~matrix(graph)))
    assert {p, q} <= {*graph[lowest[0]], *graph[lowest[1]]}
    assert nx.shortest_path_length(graph, p, q) == 3
    removed = matrix(graph) & ~rewired(BORF(rounds=1, add=0, remove=3), graph)
    gone = [curvature[i, j] for i, j in np.argwhere(np.triu(removed))]
    assert sorted(gone) == pytest.approx(sorted(curvature.values())[-3:])


@pytest.mark.parametrize("transform", [FoSR(3), SDRF(3), BORF(2, 3, 2)])
def test_self_loops_and_repeated_edges_stay_and_other_edges_are_refused(transform):
    data = data_of(GRAPHS["grid"])
    extra = torch.tensor([[0, 2, 0], [1, 2, 1]])
    data.edge_index = torch.cat([data.edge_index, extra, extra.flip(0)[:, ::2]], 1)
    before = list(zip(*data.edge_index.tolist(), strict=True))
    after = list(zip(*transform(data.clone()).edge_index.tolist(), strict=True))
    assert {(j, i) for i, j in after} == set(after)
    stays = [pair for pair in before if pair in after]
    assert after[: len(stays)] == stays
    data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    with pytest.raises(DataError, match="undirected"):
        transform(data)
