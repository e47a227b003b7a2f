"""What a layer gives for the first nodes on the block of the edges into them is what it gives on the whole graph."""

import pytest
import torch

from gnn_depth.graph import Graph
from gnn_depth.nn.norms import LipschitzNorm
from tests.nn.functional.cases import distance
from tests.nn.layers.variants import ATTENTION, VARIANTS, features, make

ON_BLOCKS = [name for name in VARIANTS if make(name).takes_blocks]
NORMED = [(name, normed) for name in ON_BLOCKS for normed in (False, True) if not normed or name in ATTENTION]


def values_and_gradients(layer, graph, x, direction):
    """Of the first rows of the output, as many as the direction has."""
    out = layer(x[: graph.num_sources], graph)[: len(direction)]
    inputs = [x, *layer.parameters()]
    gradients = torch.autograd.grad(out, inputs, direction, allow_unused=True, materialize_grads=True)
    return [out], [gradients[0]], gradients[1:]


def test_every_layer_runs_on_blocks_unless_it_looks_at_all_nodes_or_is_not_ours():
    assert set(VARIANTS) - set(ON_BLOCKS) == {"gin_with_batch_norm", "pyg"}


@pytest.mark.parametrize(("variant", "normed"), NORMED)
@pytest.mark.parametrize("kind", ["directed", "both_ways"])
def test_every_prefix_gives_the_first_rows_and_their_gradients(variant, normed, kind, graph):
    if kind == "both_ways":
        graph = Graph(torch.cat([graph.edge_index, graph.edge_index.flip(0)], 1), graph.num_nodes)
    layer = make(variant)
    if normed:
        layer.add_score_norm(LipschitzNorm(layer.heads))
    x = features(graph)
    for nodes in (1, 2, 5, 8, 9):
        block = graph.prefix(nodes)
        assert layer(x[: block.num_sources], block).shape == (nodes, layer.width)
        direction = torch.randn(nodes, layer.width, dtype=torch.float64)
        whole = values_and_gradients(layer, graph, x, direction)
        for wanted, got in zip(whole, values_and_gradients(layer, block, x, direction), strict=True):
            assert distance(got, wanted) <= 1e-12


def test_only_the_released_form_of_the_norm_looks_beyond_the_neighbours(graph):
    assert LipschitzNorm(2).nodewise
    assert not LipschitzNorm(2, form="released").nodewise
    layer, x = make("transformer"), features(graph)
    layer.add_score_norm(LipschitzNorm(2, form="released"))
    block = graph.prefix(2)
    assert not torch.allclose(layer(x[: block.num_sources], block), layer(x, graph)[:2])
