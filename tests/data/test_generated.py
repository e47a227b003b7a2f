"""Generated graphs: the block model's probabilities."""

import numpy as np
import pytest

from gnn_depth.data import ContextualSBM


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
