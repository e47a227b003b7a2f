"""The command and the report say from how far the nodes of a trained model read."""

import numpy as np

import gnn_depth as package
from gnn_depth.diagnostics import influence
from tests.cli.conftest import SHORT


def test_the_command_measures_test_nodes_and_draws_them(done, tmp_path):
    answer = done("fit", *SHORT, "--model.num_layers", "8", "--run.name", "deep")
    assert "the model has 8 layers" in answer.out + answer.err
    done("range", "runs/deep", "--nodes", "5", "--output", "range.png")
    assert (tmp_path / "range.png").stat().st_size > 1000
    run = package.load("runs/deep")
    found = run.range(5)
    batch = run.data.batch
    assert batch.test_mask[found.nodes].all()
    again = influence(run.model, batch.x, batch.graph.edge_index, found.nodes.tolist())
    np.testing.assert_allclose(again.by_hop, found.by_hop, rtol=1e-4, atol=1e-9)
