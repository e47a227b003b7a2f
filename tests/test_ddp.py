"""Several processes, for real."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from torch import distributed

import gnn_depth.diagnostics.log
from gnn_depth.cli import main
from gnn_depth.diagnostics import MEASURES
from tests.cli.test_resume import assert_goes_on
from tests.processes import call_in_fresh_process, in_processes

GRAPH = shlex.split("""--data.num_nodes=120 --data.num_edges=240 --data.num_features=30
    --data.num_train_per_class=5 --data.num_val=30 --data.num_test=30 --trainer.max_epochs=3""")
PARTS = shlex.split("""--data=MiniBatches --data.source=SyntheticCitation --data.parts=4
    --data.method=partition --data.chunks=2 --model.hidden_channels=8""")
PARTS += [word.replace("--data.", "--data.source.") for word in GRAPH]
TREES = shlex.split("""--data=TreeNeighborsMatch --data.depth=2 --data.batch_size=6
    --data.passes=1 --trainer.max_epochs=2 --model.encoder=embedding --model.layer=gat
    --model.num_layers=3 --model.hidden_channels=8 --model.skip=residual --model.norm=layer
    --model.norm_after_skip=true --model.optimizer=Adam --model.optimizer.lr=0.0005""")
RANDOM = ["--model.dropout=0.5", "--model.graph_dropout=drop_edge", "--model.graph_dropout.p=0.3"]
SHORT_OF_TIME = [*PARTS, *RANDOM, "--run.save_every_epochs=2"]
SCHEDULE = shlex.split("""--model.scheduler=ReduceLROnPlateau
    --model.scheduler.monitor=train/loss --model.scheduler.patience=0
    --model.scheduler.threshold=0.01 --model.dropout=0.8 --trainer.max_epochs=6
    --plugins=plug_same.py --trainer.callbacks=plug_same.Same""")
# Connected components reach into other processes.
ON_SHARDS = [name for name, measure in MEASURES.items() if measure.statistic.side is None]
DIVIDED = """--trainer.max_epochs=2 --trainer.precision=64 --model.hidden_channels=8
    --model.layer=gat --model.layer.dropout=0.3 --model.norm=lipschitz
    --trainer.callbacks+=gnn_depth.diagnostics.LayerMeasures --trainer.callbacks.measures=NAMES
    --trainer.callbacks+=gnn_depth.diagnostics.LipschitzConstants
    --trainer.callbacks.every_n_epochs=2""".replace("NAMES", f"[{','.join(ON_SHARDS)}]").split()
DIVIDED = [*GRAPH, *RANDOM, *DIVIDED]
ALONE = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false"]
STOPPED = [*GRAPH, *RANDOM, "--plugins=plug_same.py", "--trainer.callbacks=plug_same.Stop"]
#: The options of each training of two processes, and whether it goes on from the second epoch of
#: another.
TRAININGS = {
    "parts": PARTS,
    "trees": TREES,
    "dropout": [*GRAPH, *RANDOM],
    "divided": [*DIVIDED, "--trainer.strategy=graph"],
    "schedule": [*PARTS, *SCHEDULE],
    "whole": SHORT_OF_TIME,
    "rest": [*SHORT_OF_TIME, "--ckpt_path=last-1.ckpt"],
    "stopped": STOPPED,
}

PLUGIN = """
import os
import signal

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


class Stop(L.Callback):
    def on_train_batch_end(self, trainer, *_):
        if (trainer.global_rank, trainer.current_epoch) == (1, 1):
            os.kill(os.getpid(), signal.SIGTERM)
"""


def train(rank):
    """All trainings one after the other."""
    gnn_depth.diagnostics.log.log_heat_maps = lambda *_: None  # to draw takes longer than to train
    left = []
    leave = distributed.destroy_process_group
    distributed.destroy_process_group = lambda: left.append(leave())
    two = ["--trainer.strategy=ddp", "--trainer.accelerator=cpu", "--trainer.devices=2"]
    for count, (name, words) in enumerate(TRAININGS.items(), start=1):
        if "--ckpt_path=last-1.ckpt" in words:
            (checkpoint,) = Path("whole").rglob("last-1.ckpt")
            words = [*words[:-1], f"--ckpt_path={checkpoint}"]
        code = main(["fit", *two, *words, f"--run.root={name}"])
        assert code == (143 if name == "stopped" and rank == 0 else 0), name
        if name != "stopped":
            assert len(left) == count, name
            assert not distributed.is_initialized(), name


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the trainings of two processes, each of which has left the other before it
    ended."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "plug_same.py").write_text(PLUGIN)
    call_in_fresh_process(folder, in_processes, 2, train)
    return folder


def read(root):
    """The result of a run and the rows of its log."""
    (result,), (rows,) = root.rglob("result.json"), root.rglob("metrics.csv")
    with rows.open() as file:
        return json.loads(result.read_text()), [
            {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(file)
        ]


# Parts and trees without dropout: each process has random numbers of its own for its batches.
@pytest.mark.parametrize(
    ("name", "alone", "steps"),
    [
        ("dropout", [], 3),
        ("parts", ["--trainer.accumulate_grad_batches=2"], 3 * 2),
        ("trees", [], 2 * 13),  # 76 examples in batches of 6
    ],
)
def test_two_processes_report_what_one_does(trained, tmp_path, name, alone, steps):
    words = [*ALONE, f"--run.root={tmp_path}"]
    assert main(["fit", *TRAININGS[name], *words, *alone]) == 0
    one, rows_of_one = read(tmp_path)
    two, rows_of_two = read(trained / name)
    assert one["steps"] == two["steps"] == steps
    assert two["status"] == "finished"
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)
    assert {"train/loss", "train/acc", "val/loss", "val/acc"} <= set(two["metrics"])
    for ours, theirs in zip(rows_of_two, rows_of_one, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5)
    (folder,) = (trained / name).rglob("checkpoints")
    assert {path.name for path in folder.glob("*.ckpt")} == {"best.ckpt", "last.ckpt"}


def test_two_processes_with_half_of_a_graph_each_measure_what_one_does(
    trained, tmp_path, monkeypatch
):
    # To draw the measures takes longer than to train.
    monkeypatch.setattr("gnn_depth.diagnostics.log.log_heat_maps", lambda *_: None)
    assert main(["fit", *DIVIDED, *ALONE, f"--run.root={tmp_path}/one"]) == 0
    one, rows_of_one = read(tmp_path / "one")
    two, rows_of_two = read(trained / "divided")
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-9)
    for ours, theirs in zip(rows_of_two, rows_of_one, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)
    arrays = (tmp_path / "one").rglob("measures/*.npz")
    measures = {path.name: np.load(path)["values"] for path in arrays}
    assert len(measures) == len(ON_SHARDS) + 2
    for name, values in measures.items():
        (path,) = (trained / "divided").rglob(f"measures/{name}")
        assert np.isfinite(values).any(), name
        found = np.load(path)["values"]
        np.testing.assert_allclose(found, values, rtol=1e-6, atol=1e-12, err_msg=name)

    (checkpoint,) = (trained / "divided").rglob("last.ckpt")
    longer = [*DIVIDED, *ALONE, "--trainer.max_epochs=3"]
    assert main(["fit", *longer, f"--run.root={tmp_path}/rest", f"--ckpt_path={checkpoint}"]) == 0
    assert main(["fit", *longer, f"--run.root={tmp_path}/whole"]) == 0
    rest, whole = (read(tmp_path / name)[0]["metrics"] for name in ("rest", "whole"))
    assert rest == pytest.approx(whole, rel=1e-9)


def test_processes_with_other_dropout_masks_find_the_same_metrics(trained):
    _, rows = read(trained / "schedule")
    assert len({row["train/lr"] for row in rows if "train/lr" in row}) > 1


def test_two_processes_go_on_to_the_last_bit_each_with_its_own_random_numbers(trained):
    rest, whole = (next((trained / name).glob("*/*")) for name in ("rest", "whole"))
    assert_goes_on(rest, whole, 2)


def test_a_signal_to_one_of_two_processes_stops_both_and_one_goes_on(trained, monkeypatch):
    monkeypatch.chdir(trained)
    result, _ = read(Path("stopped"))
    assert (result["status"], result["reason"]) == ("interrupted", "SIGTERM")
    assert result["epochs"] == 2
    (checkpoint,) = Path("stopped").rglob("last.ckpt")
    words = ["--trainer.accelerator=cpu", "--run.root=gone_on", f"--ckpt_path={checkpoint}"]
    assert main(["fit", *STOPPED, *words]) == 0
    assert read(Path("gone_on"))[0]["epochs"] == 3
