"""``gnn-depth partition``: the parts of a graph as files."""

import numpy as np

from tests.cli.conftest import SHORT


def test_the_command_writes_a_folder_once_and_a_training_reads_it(gnn_depth, tmp_path):
    answer = gnn_depth("partition", *SHORT, "--parts", "3", "--output", "parts")
    assert answer.code == 0
    assert "3 parts of 20 to 20 nodes" in answer.out
    words = ["--data", "PartitionedGraph", "--data.path", "parts", "--trainer.max_epochs", "1"]
    assert gnn_depth("fit", *words, "--trainer.accelerator", "cpu").code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"parts", "runs"}

    for words, said in (
        (["--output", "parts"], "parts exists"),
        ([], "--output"),
        (["--output", "other", "--parts", "0"], "parts"),
        (["--output", "other", "--nodes", "metiss"], "metis"),
        (["--output", "other", "--model.layer", "pyg", "--model.layer.conv", "SAGEConv"], "pyg"),
    ):
        answer = gnn_depth("partition", *SHORT, *words)
        assert (answer.code, said in answer.err) == (2, True), answer.err
    missing = gnn_depth("fit", "--data", "PartitionedGraph", "--data.path", "nowhere")
    assert missing.code == 2
    assert "nowhere" in missing.err
    assert "gnn-depth partition" in missing.err


def test_parts_number_the_nodes_as_the_data_does_in_whatever_order_it_is_trained(gnn_depth):
    ends = np.random.default_rng(0).permutation(12)
    edges = np.stack([ends[:-1], ends[1:]])
    x = np.arange(12.0)[:, None]
    np.savez("path.npz", x=x, y=np.arange(12) % 2, edge_index=edges)
    words = ["--data=UserGraph", "--data.path=path.npz", "--data.node_order=rcm"]
    answer = gnn_depth("partition", *words, "--parts", "3", "--output", "parts")
    assert answer.code == 0, answer.err
    assert np.load("parts/numbers.npy").tolist() == list(range(12))
    assert np.load("parts/x.npy").tolist() == x.tolist()
