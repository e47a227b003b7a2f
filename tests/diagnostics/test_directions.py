"""Guesses of what a layer stretches most, from the layer before it and its weights."""

import torch
from torch import nn

from gnn_depth.diagnostics.calls import CallArguments, RecordedCall
from gnn_depth.diagnostics.lipschitz import Guesses, local_lipschitz
from gnn_depth.graph import Graph
from gnn_depth.nn.layers import GCN


def call(layer: nn.Module, nodes: int = 30) -> RecordedCall:
    generator = torch.Generator().manual_seed(0)
    source, target = torch.randint(nodes, (2, 90), generator=generator)
    graph = Graph(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), nodes)
    x = torch.randn(nodes, layer.in_channels, generator=generator)
    return RecordedCall(CallArguments(layer, (x, graph), {}))


def test_after_the_first_layer_of_a_kind_one_round_finds_the_constant():
    guesses, rounds = Guesses(), []
    for _ in range(3):
        layer = call(GCN(8, 8))
        found = local_lipschitz(layer, layer.x, guesses.of(layer), tolerance=1e-2)
        guesses.learn(found)
        rounds.append(found.iterations)
        exact = local_lipschitz(layer, layer.x, tolerance=1e-6)
        assert abs(found.value / exact.value - 1) < 1e-3
    assert rounds[1:] == [1, 1] < [rounds[0]] * 2


def test_another_number_of_nodes_or_channels_begins_anew():
    guesses = Guesses()
    layer = call(GCN(8, 8))
    guesses.learn(local_lipschitz(layer, layer.x))
    wide, small = call(GCN(16, 4)), call(GCN(8, 8), nodes=20)
    assert guesses.of(wide).shape == wide.x.shape
    assert guesses.of(small).shape == small.x.shape


def test_without_weights_to_go_by_or_with_broken_ones_there_is_no_guess():
    guesses = Guesses()
    linear = nn.Linear(8, 8)
    linear.in_channels = 8
    assert guesses.of(call(linear)) is None
    broken = GCN(8, 8)
    nn.init.constant_(broken.lin.weight, float("nan"))
    layer = call(broken)
    guess = guesses.of(layer)
    assert guess is None or guess.isfinite().all()
