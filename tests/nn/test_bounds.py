"""The bounds hold everywhere: for drawn weights and inputs, and for those that gradient ascent
finds."""

import math
from functools import partial

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.bounds import of_propagation
from gnn_depth.nn.layers import GAT, GCN, GATv2, Transformer
from gnn_depth.nn.norms import LipschitzNorm
from tests.nn.functional.graphs import GRAPHS, both_ways, graph_of
from tests.reference import drawn

LAYERS = {
    "gat": GAT,
    "gat_steep": partial(GAT, negative_slope=-2.0),
    "gatv2": GATv2,
    "gatv2_shared": partial(GATv2, share_weights=True),
    "gatv2_steep": partial(GATv2, negative_slope=3.0),
    "transformer": Transformer,
    "transformer_message": partial(Transformer, root_weight=False),
}
#: Many into one, one into many, all into all; node 0 of the pair reads two others and not itself.
SHAPES = {
    "pair": lambda: graph_of([(1, 0), (2, 0)], 3),
    "hub": lambda: graph_of(both_ways([(0, leaf) for leaf in range(1, 4)]), 4),
    "out": lambda: graph_of(
        [(0, leaf) for leaf in range(1, 4)] + [(4, leaf) for leaf in range(1, 4)], 5
    ),
    "full": lambda: graph_of([(i, j) for i in range(3) for j in range(3)], 3),
    **{kind: GRAPHS[kind] for kind in ("repeated", "block", "no_edges")},
}
# Options change the constants of a layer, and its kind how the graph enters.
ON_SHAPES = [(name, kind) for name in ("gat", "gatv2", "transformer") for kind in SHAPES]
ON_SHAPES += [(name, kind) for name in LAYERS if "_" in name for kind in ("hub", "repeated")]


def make(name, heads, channels, scale=None):
    layer = LAYERS[name](*channels, heads=heads).eval()
    layer.add_score_norm(LipschitzNorm(heads, scale=scale))
    return drawn(layer)


def stretch(layer, x, graph):
    jacobian = torch.autograd.functional.jacobian(lambda v: layer(v, graph), x)
    return torch.linalg.matrix_norm(jacobian.reshape(-1, x.numel()), 2)


@pytest.mark.parametrize(("name", "kind"), ON_SHAPES)
def test_no_jacobian_exceeds_the_bound_at_any_size_of_input_and_scale_of_norm(name, kind):
    graph = SHAPES[kind]()
    for scale, size in ((None, 1.0), (0.3, 1e3)):
        layer = make(name, 2, (3, 1), scale)
        x = size * torch.randn(graph.num_sources, 3, dtype=torch.float64)
        assert stretch(layer, x, graph) <= layer.lipschitz_bound(graph) * (1 + 1e-9)


def test_by_hand_a_gat_on_two_nodes_has_the_theorems_constant():
    # Each node reads both, so each feature is read twice: e^a / sqrt(n) + a sqrt(8), with n - 1 +
    # e^(2a) in place of n.
    layer = make("gat", 1, (3, 3))
    layer.lin.weight.data = 2 * torch.eye(3, dtype=torch.float64)
    alpha = 0.25
    reads = math.exp(alpha) / math.sqrt(1 + math.exp(2 * alpha)) + alpha * math.sqrt(8)
    bound = layer.lipschitz_bound(graph_of([(0, 1), (1, 0)], 2))
    assert bound == pytest.approx(2 * reads * math.sqrt(2), rel=1e-12)


#: Node 0 reads nodes 1 and 2; in the second graph node 3 also reads it, and node 4.
@pytest.mark.parametrize(
    ("edges", "reads_of_node_0"), [([(1, 0), (2, 0)], 1), ([(1, 0), (2, 0), (0, 3), (4, 3)], 2)]
)
def test_by_hand_a_transformer_counts_a_nodes_own_query_as_a_read(edges, reads_of_node_0):
    layer = make("transformer", 1, (2, 2))
    sizes = {"query": 1.0, "key": 2.0, "value": 3.0, "root": 5.0}
    with torch.no_grad():
        for name, size in sizes.items():
            getattr(layer, f"lin_{name}").weight.copy_(size * torch.eye(2))
    alpha = 1 / math.sqrt(2)
    of_values = 3 / math.sqrt(1 + math.exp(-2 * alpha))
    of_scores = math.sqrt(8) * alpha * math.sqrt(1 + 4 + 9)
    # Its query reads node 0 although no edge leads from it to itself.
    expected = math.sqrt(reads_of_node_0) * (of_values + of_scores) + 5
    assert layer.lipschitz_bound(graph_of(edges, 5)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("layer", "norms"),
    [
        (lambda: GAT(3, 2), []),
        (lambda: GAT(3, 2), [LipschitzNorm(1), LipschitzNorm(1)]),
        (lambda: GATv2(3, 2), [LipschitzNorm(1, form="released")]),
        (lambda: Transformer(3, 2, beta=True), [LipschitzNorm(1)]),
    ],
)
def test_where_nothing_is_known_there_is_no_bound(layer, norms, graph):
    layer = layer()
    for norm in norms:
        layer.add_score_norm(norm)
    assert layer.lipschitz_bound(graph) is None


@pytest.mark.parametrize("kind", SHAPES)
def test_no_jacobian_of_a_gcn_exceeds_its_bound_which_some_reach(kind):
    graph = SHAPES[kind]()
    layer = GCN(3, 2).double()
    x = torch.randn(graph.num_sources, 3, dtype=torch.float64)
    if kind == "block":
        graph = Graph(torch.tensor([[1, 0, 2, 1, 3, 2], [0, 1, 1, 2, 2, 3]]), 4).prefix(2)
        x = x[: graph.num_sources]
    assert stretch(layer, x, graph) <= layer.lipschitz_bound(graph) * (1 + 1e-9)
    if kind in ("hub", "full", "no_edges"):
        assert stretch(layer, x, graph) == pytest.approx(layer.lipschitz_bound(graph), rel=1e-9)
        assert of_propagation(graph.with_self_loops()) == pytest.approx(1)
    star = graph_of([(0, leaf) for leaf in range(1, 9)], 9)  # a hub whose leaves do not answer
    assert of_propagation(star.with_self_loops()) == pytest.approx(3)  # nine edges out, one in
