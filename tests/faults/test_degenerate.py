"""Graphs at the edge of what is a graph: finite numbers in every layer under every kind of norm."""

import pytest
import torch

import gnn_depth.nn  # noqa: F401  (registers every built-in part)
from gnn_depth import registry
from gnn_depth.graph import Graph
from gnn_depth.nn.parts import AttentionLayer
from gnn_depth.nn.stack import DeepGNN

PAIR = torch.tensor([[0, 1], [1, 0]])
NONE = torch.zeros(2, 0, dtype=torch.long)
GRAPHS = {
    "one node": (NONE, torch.ones(1, 4)),
    "no edges": (NONE, torch.rand(5, 4)),
    "isolated nodes": (PAIR, torch.rand(5, 4)),
    "zero vectors": (PAIR, torch.zeros(5, 4)),
}
FEATURE_NORMS = ("pair", "batch", "layer")
WITHOUT_MATRICES = ("pyg", "mean", "reaction")


@pytest.mark.filterwarnings("ignore:layer 'swan'")  # of a term that is zero on these graphs
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", sorted(registry.registered("layer")))
def test_every_layer_has_finite_outputs_and_gradients_under_every_norm(name: str, graph: str):
    layer = registry.registered("layer")[name]
    edges, x = GRAPHS[graph]
    scored = ("lipschitz",) if issubclass(layer, AttentionLayer) else ()
    of_weights = () if name in WITHOUT_MATRICES else ("spectral",)
    for norm in ("none", *of_weights, *FEATURE_NORMS, *scored):
        norms = [] if norm == "none" else [registry.registered("norm")[norm]]
        stack = DeepGNN(4, 1, layer, 3, 8, norms)
        scores = stack(x, Graph(edges, len(x)), len(x))
        scores.square().sum().backward()
        assert scores.isfinite().all(), norm
        for key, parameter in stack.named_parameters():
            assert parameter.grad is None or parameter.grad.isfinite().all(), (norm, key)
