"""What the parts of this package promise."""

import torch
from gnn_depth_plugin_example import BandNorm, LazyGCN

from gnn_depth import Graph
from gnn_depth.testing import check_layer, check_norm

GRAPH = Graph(torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)


def test_the_norm_does_what_every_norm_is_expected_to_do():
    check_norm(BandNorm, bound=0.7)


def test_the_layer_does_what_every_layer_is_expected_to_do():
    check_layer("lazy_gcn", laziness=0.3)


def test_only_long_features_are_shortened():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(BandNorm(2, bound=1.0)(x, GRAPH), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_a_layer_that_keeps_all_sends_nothing():
    layer, x = LazyGCN(4, 3, laziness=1.0), torch.randn(3, 4)
    torch.testing.assert_close(layer(x, GRAPH), layer.lin(x))
