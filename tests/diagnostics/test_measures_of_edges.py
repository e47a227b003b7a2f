import math

import pytest
import torch

from gnn_depth.diagnostics import measures
from gnn_depth.diagnostics.measures import dirichlet_energy, mean_average_distance
from tests.diagnostics.test_measures import DTYPES, NO_EDGES, RING, features, squared


def complete(count):
    return torch.tensor([(i, j) for i in range(count) for j in range(count) if i != j]).t()


def distance(a, b):
    norms = math.sqrt(sum(u * u for u in a)) * math.sqrt(sum(v * v for v in b))
    return 1 - sum(u * v for u, v in zip(a, b)) / norms


@pytest.mark.parametrize(
    ("dtype", "chunk"), [*((dtype, 1 << 16) for dtype in DTYPES), (torch.float64, 20)]
)
def test_measures_of_edges_are_those_of_a_loop(dtype, chunk, graph, monkeypatch):
    monkeypatch.setattr(measures, "CHUNK", chunk)
    x, edge_index = features(dtype=dtype), graph.edge_index
    source, target = edge_index
    rows, edges = x.tolist(), list(zip(source.tolist(), target.tolist()))
    averages = []
    for node in range(9):
        distances = [distance(rows[from_], rows[to]) for from_, to in edges if to == node != from_]
        averages += [sum(distances) / len(distances)] if distances else []
    for measure, expected in [
        (dirichlet_energy, sum(squared(rows[i], rows[j]) for i, j in edges) / 9),
        (mean_average_distance, sum(averages) / len(averages)),
    ]:
        value = measure(x, edge_index)
        assert value.dtype == torch.float64
        assert value.item() == pytest.approx(expected, rel=1e-12)


def test_mean_average_distance_does_not_see_the_lengths_of_rows_and_ends_at_two():
    x = features(6)
    lengths = 10.0 ** torch.randint(-20, 20, (6, 1)).double()
    torch.testing.assert_close(
        mean_average_distance(lengths * x, RING), mean_average_distance(x, RING)
    )
    opposite = torch.tensor([1.0, -1.0] * 3)[:, None] * x[:1]
    assert mean_average_distance(opposite, RING).item() == pytest.approx(2, rel=1e-12)
    assert mean_average_distance(lengths * x[:1], RING).item() == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("zeros", [0, 1, 3, 6])
def test_a_row_of_zeros_has_distance_1_from_others_and_0_from_its_like(zeros):
    x = features(6)
    x[:zeros] = 0
    rows = x.tolist()
    total = sum(
        distance(rows[i], rows[j]) if min(i, j) >= zeros else float(max(i, j) >= zeros)
        for i in range(6)
        for j in range(6)
        if i != j
    )
    assert mean_average_distance(x, complete(6)).item() == pytest.approx(total / 30, rel=1e-12)


def test_without_edges_there_is_no_energy_and_no_mean_distance():
    x = features()
    loops = torch.arange(9).expand(2, -1)
    for edges in (NO_EDGES, loops):
        assert dirichlet_energy(x, edges) == 0
        assert mean_average_distance(x, edges).isnan()
