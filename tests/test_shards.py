"""Several processes that each hold a part of one graph train as a single one does."""

from functools import partial

import pytest
import torch

from gnn_depth.registry import registered
from tests import sharded
from tests.processes import call_in_fresh_process, in_processes


def run(folder, processes):
    train = partial(sharded.main, folder, processes)
    call_in_fresh_process(folder, in_processes, processes, train)
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(processes)]


def test_loss_gradients_and_weights_are_those_of_one_process_and_only_boundaries_are_sent(tmp_path):
    of_each = run(tmp_path, 4)
    differences = of_each[0]["differences"]
    assert len(differences) > 5 / 3 * len(sharded.CASES)
    assert {name: error for name, error in differences.items() if not error < 1e-7} == {}
    assert of_each[0]["float32"] < 1e-4
    # Every layer reads the halo: forwards go the rows that others want, backwards the gradients of
    # those received.
    halos = [of_each[rank]["halo"] for rank in (0, 1)]
    assert min(halos) > 0
    row, passes = 8 * sharded.WIDTH, sharded.STEPS * sharded.LAYERS
    assert [of_each[rank]["bytes"] for rank in (0, 1)] == [passes * row * sum(halos)] * 2


def test_every_built_in_part_is_in_a_case():
    named = str(sharded.CASES)
    for kind in ("layer", "norm", "skip", "graph_dropout"):
        parts = registered(kind).items()
        # Other tests register parts of their own.
        built_in = [name for name, part in parts if part.__module__.startswith("gnn_depth.")]
        missing = {name for name in built_in if f"'{name}'" not in named}
        # These read other nodes in ways of their own, and are refused.
        assert missing <= {"pyg", "swan", "unitary", "contra", "gradient_gating"}, kind


def test_parts_that_read_other_nodes_in_ways_of_their_own_are_refused_by_name():
    convolution = {"name": "pyg", "conv": "GraphConv"}
    for options, name in (
        ({"layer": convolution}, "pyg"),
        ({"layer": "gat", "norm": {"name": "lipschitz", "form": "released"}}, "lipschitz"),
        ({"graph_dropout": {"name": "drop_edge", "undirected": True}}, "drop_edge"),
    ):
        with pytest.raises(ValueError, match=name):
            sharded.DeepGNN(6, 3, **options).check_shards()
