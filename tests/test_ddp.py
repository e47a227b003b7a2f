"""Several processes, for real."""

import csv
import json
import os
import subprocess
import sys

import pytest

WORDS = [
    *("--data.num_nodes=120", "--data.num_edges=240", "--data.num_features=30", "--data.num_train_per_class=4"),
    *("--data.num_val=30", "--data.num_test=30", "--trainer.max_epochs=3", "--trainer.accelerator=cpu"),
]


SAME = """
import lightning as L
import torch


class Same(L.Callback):
    def on_train_start(self, trainer, module):
        torch.manual_seed(trainer.global_rank)

    def on_train_epoch_end(self, trainer, module):
        values = {name: value.double() for name, value in trainer.callback_metrics.items()}
        for name, value in values.items():
            everywhere = trainer.strategy.all_gather(value)
            assert (everywhere == everywhere[0]).all(), (name, everywhere)
"""


def fit(root, *words):
    command = [sys.executable, "-m", "gnn_depth", "fit", *WORDS, f"--run.root={root}", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    (result,) = root.rglob("result.json")
    return json.loads(result.read_text())


LEAVING = """
import sys
from torch import distributed
from gnn_depth.cli import main

left = []
leave = distributed.destroy_process_group
distributed.destroy_process_group = lambda: left.append(leave())
assert main(sys.argv[1:]) == 0
assert left and not distributed.is_initialized()
"""


def rows(root):
    (path,) = root.rglob("metrics.csv")
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


# Without dropout: Lightning seeds the processes anew once they are there.
def test_two_processes_on_one_graph_report_what_one_process_does(tmp_path):
    one = fit(tmp_path / "one")
    two = fit(tmp_path / "two", "--trainer.devices=2", "--trainer.strategy=ddp")
    assert two["status"] == "finished"
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)
    for ours, theirs in zip(rows(tmp_path / "two"), rows(tmp_path / "one"), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    (folder,) = (tmp_path / "two").rglob("checkpoints")
    assert {path.name for path in folder.glob("*.ckpt")} == {"best.ckpt", "last.ckpt"}


def test_a_process_leaves_the_others_before_it_ends(tmp_path):
    words = ["fit", *WORDS, f"--run.root={tmp_path}", "--trainer.devices=1", "--trainer.strategy=ddp"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", LEAVING, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_processes_that_differ_in_their_dropout_find_the_same_metrics_and_keep_the_same_rate(tmp_path):
    schedule = ["--model.scheduler=ReduceLROnPlateau", "--model.scheduler.monitor=train/loss"]
    schedule += ["--model.scheduler.patience=0", "--model.scheduler.threshold=0.01", "--model.dropout=0.8"]
    words = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.max_epochs=12", *schedule]
    words += ["--plugins", str(tmp_path / "plug_same.py"), "--trainer.callbacks", "plug_same.Same"]
    (tmp_path / "plug_same.py").write_text(SAME)
    assert fit(tmp_path / "runs", *words)["status"] == "finished"
    assert len({row["train/lr"] for row in rows(tmp_path / "runs")}) > 1
