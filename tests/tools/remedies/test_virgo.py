"""VirGo: variances against a slow reference, and what it refuses."""

import pytest
import torch
from gnn_depth_remedies import VirGo

from gnn_depth import DeepGNN
from gnn_depth.testing import check_init
from tests.nn.inits.conftest import NODES, normed_adjacency

BARE = {"encoder": "none", "decoder": "none"}


def slow_variances(x, graph, widths, direction):
    """The formulas with a dense matrix and its powers; the last layer gives the class scores."""
    normed = normed_adjacency(graph)
    depth = len(widths) - 1

    def size(vector, power):
        return float((torch.linalg.matrix_power(normed, power) @ vector).square().sum())

    mean, ones = x.double().mean(1), torch.ones(NODES, dtype=torch.float64)
    forward, backward = [], []
    for layer in range(1, depth + 1):
        ratio = 1 if layer == 1 else size(mean, layer - 1) / size(mean, layer)
        forward.append(2 / widths[layer - 1] * ratio)
        ratio = size(ones, depth - layer) / size(ones, depth - layer + 1)
        factor = 1 / (widths[-1] - 1) if layer == depth else 2 / widths[layer]
        backward.append(factor * ratio)
    both = [2 / (1 / one + 1 / other) for one, other in zip(forward, backward, strict=True)]
    return {"forward": forward, "backward": backward, "both": both}[direction]


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
def test_matrices_are_uniform_with_the_variances_of_a_slow_reference(data, direction):
    x, graph = data
    for num_layers in (1, 2, 5):
        widths = [9, *[200] * (num_layers - 1), 3]
        torch.manual_seed(0)
        stack = DeepGNN(
            9, 3, "gcn", num_layers, 200, init={"name": "virgo", "direction": direction}, **BARE
        )
        before = [layer.lin.weight.detach().clone() for layer in stack.layers]
        stack(x, graph)
        wanted = slow_variances(x, graph, widths, direction)
        for layer, drawn, variance in zip(stack.layers, before, wanted, strict=True):
            weight = layer.lin.weight.detach()
            torch.testing.assert_close(weight, drawn * variance**0.5)
            assert weight.abs().max() <= (3 * variance) ** 0.5 * (1 + 1e-6)
            assert weight.var() == pytest.approx(variance, rel=0.3)


def test_it_conforms():
    check_init("virgo")


@pytest.mark.parametrize(
    ("options", "words"),
    [({"share_layers": True}, "share_layers false"), ({"layer": "unitary"}, "weight chain")],
)
def test_what_virgo_cannot_draw_is_refused_with_the_way_out(options, words):
    with pytest.raises(ValueError, match=words):
        DeepGNN(9, 3, init="virgo", num_layers=3, **options)


def test_features_that_are_zero_leave_the_direction_backward(data):
    x, graph = data
    with pytest.raises(ValueError, match="direction backward"):
        DeepGNN(9, 3, init="virgo")(torch.zeros_like(x), graph)
    DeepGNN(9, 3, init=VirGo("backward"))(torch.zeros_like(x), graph)
