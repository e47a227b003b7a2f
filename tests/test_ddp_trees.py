"""Trees in several processes, for real."""

import csv
import json
import os
import subprocess
import sys

import pytest

WORDS = [
    *("--data=TreeNeighborsMatch", "--data.depth=2", "--data.batch_size=6", "--data.passes=2"),
    *("--model.encoder=embedding", "--model.layer=gat", "--model.num_layers=3", "--model.hidden_channels=8"),
    *("--model.skip=residual", "--model.norm=layer", "--model.norm_after_skip=true", "--model.optimizer=Adam"),
    *("--model.optimizer.lr=0.0005", "--trainer.max_epochs=2", "--trainer.accelerator=cpu"),
]


def fit(root, *words):
    command = [sys.executable, "-m", "gnn_depth", "fit", *WORDS, f"--run.root={root}", *words]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, check=False)
    assert done.returncode == 0, done.stderr
    (result,) = root.rglob("result.json")
    (rows,) = root.rglob("metrics.csv")
    with rows.open() as file:
        return json.loads(result.read_text()), list(csv.DictReader(file))


def test_two_processes_that_share_the_batches_learn_and_report_what_one_does(tmp_path):
    one, rows_of_one = fit(tmp_path / "one")
    two, rows_of_two = fit(tmp_path / "two", "--trainer.devices=2", "--trainer.strategy=ddp")
    assert one["steps"] == two["steps"] == 2 * 26  # 152 examples in batches of 6
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)
    assert {"train/loss", "train/acc", "val/loss", "val/acc"} <= set(two["metrics"])
    assert len(rows_of_one) == len(rows_of_two) > 0
    for ours, theirs in zip(rows_of_two, rows_of_one, strict=True):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            assert value == theirs[name] or float(value) == pytest.approx(float(theirs[name]), rel=1e-5)
