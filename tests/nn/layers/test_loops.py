"""Layers against their formula in loops over nodes and neighbours, in float64, gradients too.

The others are compared with PyTorch Geometric's in test_against_pyg.py.
"""

from functools import partial

import pytest
import torch

from gnn_depth.nn.norms import LipschitzNorm
from tests import reference
from tests.nn.layers import loops
from tests.nn.layers.variants import ATTENTION, VARIANTS, features, make


def as_they_are(scores, parts, graph):
    return scores


def values_and_gradients(out, inputs, direction):
    return [out, *torch.autograd.grad(out, inputs, direction)]


def assert_equal_to_the_loop(layer, variant, graph, normed):
    x = features(graph)
    expected = getattr(loops, VARIANTS[variant][0])(layer, x, graph, normed)
    inputs, direction = [x, *layer.parameters()], torch.randn_like(expected)
    got = values_and_gradients(layer(x, graph), inputs, direction)
    for ours, loop in zip(got, values_and_gradients(expected, inputs, direction), strict=True):
        torch.testing.assert_close(ours, loop, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("variant", ["omega_gat", "transformer_with_loops"])
def test_a_layer_and_its_gradients_are_those_of_a_loop_over_neighbours(variant, graph):
    assert_equal_to_the_loop(make(variant), variant, graph, as_they_are)


@pytest.mark.parametrize("form", ["paper", "released"])
@pytest.mark.parametrize("variant", ATTENTION)
def test_a_layer_with_normed_scores_and_its_gradients_are_those_of_a_loop(variant, form, graph):
    layer = make(variant)
    layer.add_score_norm(LipschitzNorm(layer.heads, form=form, scale=2.0))
    quadratic = "quadratic_" * (VARIANTS[variant][0] == "transformer")
    loop = getattr(reference, f"{'released_' * (form == 'released')}{quadratic}lipschitz")
    assert_equal_to_the_loop(layer, variant, graph, partial(loop, scale=2.0))
