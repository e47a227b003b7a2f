"""Several processes, for real."""

import csv
import json
import os
import subprocess
import sys

import pytest

from gnn_depth.cli import main

GRAPH = [
    *("--data.num_nodes=120", "--data.num_edges=240", "--data.num_features=30", "--data.num_train_per_class=5"),
    *("--data.num_val=30", "--data.num_test=30", "--trainer.max_epochs=3"),
]
PARTS = [
    *("--data=MiniBatches", "--data.source=SyntheticCitation", "--data.parts=4", "--data.method=partition"),
    *(word.replace("--data.", "--data.source.") for word in GRAPH),
    *("--data.chunks=2", "--model.hidden_channels=8"),
]
TREES = [
    *("--data=TreeNeighborsMatch", "--data.depth=2", "--data.batch_size=6", "--data.passes=2"),
    *("--trainer.max_epochs=2", "--model.encoder=embedding", "--model.layer=gat", "--model.num_layers=3"),
    *("--model.hidden_channels=8", "--model.skip=residual", "--model.norm=layer", "--model.norm_after_skip=true"),
    *("--model.optimizer=Adam", "--model.optimizer.lr=0.0005"),
]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]

PLUGIN = """
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


def run(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr


def fit(root, *arguments):
    run("-m", "gnn_depth", "fit", "--trainer.accelerator=cpu", f"--run.root={root}", *arguments)
    return read(root)


def read(root):
    """The result of a run and the rows of its log."""
    (result,), (rows,) = root.rglob("result.json"), root.rglob("metrics.csv")
    with rows.open() as file:
        return json.loads(result.read_text()), [
            {name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)
        ]


# Without dropout: each process has random numbers of its own.
@pytest.mark.parametrize(
    ("data", "alone", "steps"),
    [
        (GRAPH, [], 3),
        (PARTS, ["--trainer.accumulate_grad_batches=2"], 3 * 2),
        (TREES, [], 2 * 26),  # 152 examples in batches of 6
    ],
    ids=["one graph", "parts of a graph", "trees"],
)
def test_two_processes_report_what_one_does(tmp_path, data, alone, steps):
    words = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", f"--run.root={tmp_path / 'one'}"]
    assert main(["fit", *data, *words, *alone]) == 0
    one, rows_of_one = read(tmp_path / "one")
    two, rows_of_two = fit(tmp_path / "two", *data, *TWO)
    assert one["steps"] == two["steps"] == steps
    assert two["status"] == "finished"
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)
    assert {"train/loss", "train/acc", "val/loss", "val/acc"} <= set(two["metrics"])
    for ours, theirs in zip(rows_of_two, rows_of_one, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    (folder,) = (tmp_path / "two").rglob("checkpoints")
    assert {path.name for path in folder.glob("*.ckpt")} == {"best.ckpt", "last.ckpt"}


def test_a_process_leaves_the_others_before_it_ends(tmp_path):
    words = [*GRAPH, f"--run.root={tmp_path}", "--trainer.accelerator=cpu", "--trainer.devices=1"]
    run("-c", LEAVING, "fit", *words, "--trainer.strategy=ddp")


def test_processes_that_differ_in_their_dropout_find_the_same_metrics_and_keep_the_same_rate(tmp_path):
    schedule = ["--model.scheduler=ReduceLROnPlateau", "--model.scheduler.monitor=train/loss"]
    schedule += ["--model.scheduler.patience=0", "--model.scheduler.threshold=0.01", "--model.dropout=0.8"]
    (tmp_path / "plug_same.py").write_text(PLUGIN)
    plugin = ["--plugins", str(tmp_path / "plug_same.py"), "--trainer.callbacks", "plug_same.Same"]
    _, rows = fit(tmp_path / "runs", *GRAPH, *TWO, *schedule, *plugin, "--trainer.max_epochs=12")
    assert len({row["train/lr"] for row in rows}) > 1
