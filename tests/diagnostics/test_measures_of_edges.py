import numpy as np
import pytest
import torch

from gnn_depth.diagnostics import measures
from gnn_depth.diagnostics.measures import (
    dirichlet_energy,
    energy_normalized,
    mean_average_distance,
)
from tests.diagnostics.test_measures import DTYPES, NO_EDGES, RING, features
from tools.attack.numbers import layers as attack


@pytest.mark.parametrize(
    ("dtype", "chunk"), [*((dtype, 1 << 16) for dtype in DTYPES), (torch.float64, 20)]
)
def test_measures_of_edges_are_those_of_a_loop(dtype, chunk, graph, monkeypatch):
    monkeypatch.setattr(measures, "CHUNK", chunk)
    x, edges = features(dtype=dtype), graph.edge_index.numpy()
    for zeros in (0, 2):  # rows that are neighbours of one another and of others
        x[:zeros] = 0
        wide = x.double().numpy()
        for measure, expected in [
            (dirichlet_energy, attack._energy(wide, edges) / 9),
            (energy_normalized, attack._normalized([wide], edges) / np.square(wide).sum()),
            (mean_average_distance, attack._distances(wide, edges).mean()),
        ]:
            value = measure(x, graph.edge_index)
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


def test_without_edges_there_is_no_energy_and_no_mean_distance():
    x = features()
    loops = torch.arange(9).expand(2, -1)
    for edges in (NO_EDGES, loops):
        assert dirichlet_energy(x, edges) == 0
        assert mean_average_distance(x, edges).isnan()
