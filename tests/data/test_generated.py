"""Generated graphs: the grid and its clues against the published set, and the block model's
probabilities."""

import numpy as np
import pytest
import torch

from gnn_depth.data import ContextualSBM, Minesweeper


def test_a_grid_has_the_asked_number_of_mines_unknown_cells_and_neighbours():
    data = Minesweeper(rows=7, columns=10, mines=0.3, unknown=0.4)
    batch = data.batch
    assert (data.task, data.num_features, int(batch.y.sum()), int(batch.x[:, 0].sum())) == (
        "binary",
        7,
        21,
        28,
    )
    assert torch.equal(batch.x.sum(1), torch.ones(70))
    assert batch.graph.in_degree.view(7, 10)[1:-1, 1:-1].eq(8).all()
    assert batch.graph.in_degree.view(7, 10)[0, 0] == 3
    assert [int(mask.sum()) for mask in batch.masks] == [35, 17, 18]
    assert data.checksum != Minesweeper(rows=7, columns=10, mines=0.3, unknown=0.4, seed=1).checksum


@pytest.mark.parametrize("phi", [-0.6, 0.0, 0.6])
def test_edges_of_the_block_model_have_the_degree_and_homophily_of_the_formula(phi):
    batch = ContextualSBM(num_nodes=2000, mean_degree=10.0, phi=phi).batch
    strength = np.sqrt(4.25) * np.sin(np.pi * phi / 2)
    same = batch.y[batch.graph.source] == batch.y[batch.graph.target]
    assert batch.graph.num_edges / 2000 == pytest.approx(10, rel=0.05)
    assert same.double().mean().item() == pytest.approx((1 + strength / np.sqrt(10)) / 2, abs=0.02)


def test_features_of_the_block_model_tell_the_classes_only_below_phi_one():
    def difference(phi):
        batch = ContextualSBM(num_nodes=2000, num_features=50, phi=phi).batch
        means = [batch.x[batch.y == of_class].mean(0) for of_class in (0, 1)]
        return (means[1] - means[0]).norm().item() ** 2

    mu, noise = np.sqrt(2000 * 4.25 / 50), 4 / 2000
    assert difference(1.0) == pytest.approx(noise, rel=0.5)
    assert difference(0.0) == pytest.approx(4 * mu / 2000 * 50, rel=0.5)


def test_a_degree_too_small_for_the_asked_signal_is_refused():
    with pytest.raises(ValueError, match=r"mean_degree .*3"):
        ContextualSBM(mean_degree=3.0, phi=1.0)
