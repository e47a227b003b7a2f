"""Several processes, for real."""

import json
import os
import subprocess
import sys

import pytest

WORDS = [
    *("--data.num_nodes=120", "--data.num_edges=240", "--data.num_features=30", "--data.num_train_per_class=4"),
    *("--data.num_val=30", "--data.num_test=30", "--trainer.max_epochs=3", "--trainer.accelerator=cpu"),
]


def fit(root, *words):
    command = [sys.executable, "-m", "gnn_depth", "fit", *WORDS, f"--run.root={root}", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    (result,) = root.rglob("result.json")
    return json.loads(result.read_text())


# Without dropout: Lightning seeds the processes anew once they are there.
def test_two_processes_on_one_graph_report_what_one_process_does(tmp_path):
    one = fit(tmp_path / "one")
    two = fit(tmp_path / "two", "--trainer.devices=2", "--trainer.strategy=ddp")
    assert two["status"] == "finished"
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)
    (folder,) = (tmp_path / "two").rglob("checkpoints")
    assert {path.name for path in folder.iterdir()} == {"best.ckpt", "last.ckpt"}
