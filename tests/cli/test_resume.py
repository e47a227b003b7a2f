"""A training that was stopped goes on to the last bit as if it had not been."""

import csv
import multiprocessing
import os
import signal
import sys
from functools import partial
from pathlib import Path
from shlex import split
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

from gnn_depth.cli import main
from gnn_depth.runs import read_result
from gnn_depth.training.checkpoints import read_checkpoint
from tests.cli.conftest import QUIET, SHORT
from tests.processes import fresh_processes, start_server
from tests.sweeps.waiting import eventually
from tests.training.conftest import scalars

RANDOM = split("--model.dropout 0.5 --model.graph_dropout drop_edge --model.graph_dropout.p 0.3")
PLATEAU = split("""
    --model.scheduler ReduceLROnPlateau --model.scheduler.monitor val/loss
    --model.scheduler.patience 0 --model.scheduler.threshold 0.1
""")
STOPPING = split("""
    --trainer.callbacks+ EarlyStopping --trainer.callbacks.monitor val/loss
    --trainer.callbacks.patience 50 --trainer.callbacks+ gnn_depth.diagnostics.GradientNorms
""")
NUMBERS = """
import random

import lightning as L
import numpy as np
import torch


class Numbers(L.Callback):
    \"\"\"Draws, between the steps, and lets the other generators decide on the gradients.\"\"\"

    def on_train_batch_start(self, trainer, module, *_):
        torch.rand(7 + trainer.current_epoch)

    def on_after_backward(self, trainer, module):
        for parameter in module.parameters():
            parameter.grad *= 1 + random.random() + np.random.rand()
"""


def state_of(folder: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """All that a run has at its end: its checkpoint, and its curves."""
    with (folder / "metrics.csv").open() as file:
        return read_checkpoint(folder / "checkpoints/last.ckpt"), list(csv.DictReader(file))


def assert_same(one, other, where=""):
    """Equal to the last bit; NaN equals itself."""
    exact = partial(tree_map_only, torch.Tensor, lambda each: repr(each.tolist()))
    assert exact(one) == exact(other), where


def assert_goes_on(rest: Path, whole: Path, epochs: int) -> None:
    """The end of a resumed run is that of the whole one, and its curves are the last of those."""
    ours, theirs = state_of(rest), state_of(whole)
    assert_same(ours[0], theirs[0])
    assert ours[1] == [row for row in theirs[1] if int(row["epoch"]) >= epochs]
    assert len(ours[1]) >= 1


@pytest.fixture
def fit(done, tmp_path, monkeypatch):
    """A fit that ends well; its folder."""
    (tmp_path / "numbers_drawn.py").write_text(NUMBERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "numbers_drawn", raising=False)

    def run(*words: str) -> Path:
        before = set(Path("runs").glob("*/*"))
        done("fit", *QUIET, "--trainer.accelerator", "cpu", *words)
        (folder,) = set(Path("runs").glob("*/*")) - before
        return folder

    return run


@pytest.mark.parametrize(
    "words",
    [
        [*SHORT, *RANDOM, *PLATEAU, *STOPPING, "--trainer.callbacks+=numbers_drawn.Numbers"],
        [*SHORT, *RANDOM, *PLATEAU, "--trainer.max_steps", "8"],
        [*SHORT, *split("--model.layer gat --model.dropout 0.5 --model.norm [spectral,batch]")],
    ],
    ids=["every kind of state", "an end in steps", "buffers"],
)
def test_a_resumed_training_equals_the_uninterrupted_one_to_the_last_bit(fit, words):
    words = [*words, "--trainer.max_epochs", "8", "--run.save_every_epochs", "5"]
    whole = fit(*words)
    middle = whole / "checkpoints/last-1.ckpt"
    rest = fit(*words, "--ckpt_path", str(middle))
    assert_goes_on(rest, whole, 5)
    assert read_result(rest)["resumed_from"] == str(middle)
    for prefix in ("train/", "val/", "~test/", "~gradient_norm/"):  # each is one line
        assert scalars(rest, prefix) == scalars(whole, prefix)


def test_after_early_stopping_only_more_patience_resumes_a_training(fit, gnn_depth):
    stopping = "--trainer.callbacks EarlyStopping --trainer.callbacks.monitor val/loss"
    words = [*SHORT, *RANDOM, *split(stopping), "--model.optimizer.lr=0.05"]
    words += ["--trainer.max_epochs=60", "--run.name=early"]
    short, long = ([*words, f"--trainer.callbacks.patience={count}"] for count in (1, 6))
    ended = fit(*short)
    epochs = read_result(ended)["epochs"]
    assert 1 < epochs < 60
    for word in ("auto", "last"):
        again = gnn_depth("fit", *QUIET, *short, "--trainer.accelerator=cpu", "--ckpt_path", word)
        assert (again.code, "already complete" in again.out) == (0, True)
    whole = fit(*long)
    rest = fit(*long, "--ckpt_path", str(ended / "checkpoints" / "last.ckpt"))
    assert_goes_on(rest, whole, epochs)


def train_in(folder: Path, words: list[str]) -> int:
    os.chdir(folder)
    return main(["fit", *words])


def test_after_sigkill_a_training_goes_on_from_a_whole_checkpoint(fit):
    words = [*SHORT, *RANDOM, *split("--run.name killed --run.save_every_epochs 1")]
    start_server()
    with fresh_processes() as pool:
        training = pool.submit(train_in, Path.cwd(), [*words, "--trainer.max_epochs=1000000"])
        saved = Path("runs/killed").glob
        assert eventually(lambda: training.done() or list(saved("*/checkpoints/last-1.ckpt")))
        assert not training.done()
        for process in multiprocessing.active_children():
            process.kill()
    (killed,) = Path("runs/killed").iterdir()
    assert read_result(killed)["status"] == "running"
    read_checkpoint(killed / "checkpoints/best.ckpt")
    # It may have been killed between the two names of a checkpoint.
    files = [killed / "checkpoints" / name for name in ("last.ckpt", "last-1.ckpt")]
    newest = next(file for file in files if file.exists())
    done = read_checkpoint(newest)["epoch"]
    with (killed / "metrics.csv").open() as file:
        # The curves of epochs behind the checkpoint are kept.
        assert len(list(csv.DictReader(file))) >= done
    end = ["--trainer.max_epochs", str(done + 2)]
    rest = fit(*words, *end, "--ckpt_path", "last")
    assert_goes_on(rest, fit(*words, *end, "--run.name", "whole"), done)


def test_a_seed_that_contradicts_the_checkpoint_is_refused_and_none_means_its_own(
    done, fit, gnn_depth
):
    folder = fit(*SHORT, "--trainer.max_epochs", "2", "--seed_everything", "3")
    words = ["fit", *SHORT, "--ckpt_path", str(folder), "--trainer.max_epochs", "3"]
    answer = gnn_depth(*words, "--seed_everything", "4")
    assert "seed_everything: 3 in the checkpoint, 4 requested" in answer.err
    done(*words)
    (rest,) = set(Path("runs").glob("*/*")) - {folder}
    assert read_result(rest)["seed"] == 3


def test_a_signal_within_a_step_does_not_replace_a_whole_checkpoint(fit, gnn_depth):
    Path("numbers_drawn.py").write_text(
        "import lightning as L\n\n\nclass Stop(L.Callback):\n"
        "    def on_before_optimizer_step(self, trainer, *_):\n"
        "        if trainer.current_epoch == 3:\n            raise KeyboardInterrupt\n"
    )
    words = [*SHORT, "--run.save_every_epochs", "2", "--trainer.callbacks+=numbers_drawn.Stop"]
    assert gnn_depth("fit", *words).code == 128 + signal.SIGINT
    (last,) = Path("runs").glob("*/*/checkpoints/last.ckpt")
    assert read_checkpoint(last)["epoch"] == 2
