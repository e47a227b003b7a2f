"""A signal ends a run where it can be gone on with, whenever it comes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from shlex import split
from typing import Any

import pytest
from lightning.pytorch.callbacks import Timer

from gnn_depth import signals
from gnn_depth.runs import read_result
from gnn_depth.training.checkpoints import read_checkpoint
from tests.cli.conftest import SMALL
from tests.cli.test_resume import PLATEAU, assert_same

PARTS = split("""
    --data MiniBatches --data.source SyntheticCitation --data.parts 4 --data.method random
""")
PARTS += [word.replace("--data.", "--data.source.") for word in SMALL]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 138}


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, "on_validation_start"),
        (signal.SIGINT, "on_before_optimizer_step"),
        (signal.SIGUSR1, "on_before_optimizer_step"),
    ],
)
def test_the_epoch_is_ended_saved_and_marked_as_interrupted(fit, harm, number, moment):
    before = signal.getsignal(number)
    answer, folder = fit(*harm("Send", number=number, moment=moment))
    assert answer.code == CODES[number]
    assert signal.getsignal(number) == before
    assert f"{folder}/checkpoints/last.ckpt" in answer.err
    result = read_result(folder)
    assert (result["status"], result["reason"], result["epochs"]) == ("interrupted", number.name, 3)
    assert len((folder / "metrics.csv").read_text().splitlines()) == 1 + 3


def last_of(folder: Path) -> dict[str, Any]:
    return read_checkpoint(folder / "checkpoints/last.ckpt")


OPEN_WINDOW = ["--trainer.accumulate_grad_batches", "3", "--trainer.precision", "64-true"]
AVERAGING = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.decay=0.7"]


@pytest.mark.parametrize(
    ("data", "words", "steps"),
    [
        (SMALL, ["--trainer.check_val_every_n_epoch", "3"], 3),
        (PARTS, [*PLATEAU, "--trainer.val_check_interval", "3"], 9),
        pytest.param(PARTS, [], 9, marks=pytest.mark.slow),
        (
            PARTS,
            [*PLATEAU, *OPEN_WINDOW],
            5,
        ),  # two steps an epoch, of three batches and of one
        (PARTS, AVERAGING, 9),
    ],
    ids=["whole", "parts", "drawn", "accumulated in float64", "averaged"],
)
def test_a_training_stopped_within_an_epoch_resumes_to_the_last_bit(fit, harm, data, words, steps):
    _, whole = fit(*words, data=data)
    _, stopped = fit(
        *harm("Send", number=signal.SIGTERM, moment="on_after_backward"), *words, data=data
    )
    assert last_of(stopped)["global_step"] == steps
    answer, resumed = fit(*words, "--ckpt_path", str(stopped), data=data)
    assert answer.code == 0, answer.err
    assert_same(last_of(resumed), last_of(whole))
    for key in ("metrics", "epochs", "steps", "best_epoch"):
        assert read_result(resumed)[key] == read_result(whole)[key], key


def test_steps_that_end_within_an_epoch_end_a_run_whose_longer_form_is_exact(fit):
    _, whole = fit("--trainer.max_steps", "15", data=PARTS)
    _, short = fit("--trainer.max_steps", "6", data=PARTS)
    assert (read_result(short)["status"], read_result(short)["steps"]) == ("finished", 6)
    assert (short / "checkpoints/best.ckpt").exists()
    _, longer = fit("--trainer.max_steps", "15", "--ckpt_path", str(short), data=PARTS)
    assert_same(last_of(longer), last_of(whole))
    assert read_result(longer)["metrics"] == read_result(whole)["metrics"]


def test_a_time_limit_interrupts_a_run_which_then_goes_on_exactly(fit, monkeypatch):
    _, whole = fit()
    asked: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(Timer, "time_elapsed", lambda *_: asked.append(1) or 60.0 * (len(asked) >= 3))
        answer, late = fit("--trainer.max_time", "00:00:00:30")
    assert answer.code == 124
    assert "a larger --trainer.max_time" in answer.err
    assert (read_result(late)["status"], read_result(late)["reason"]) == ("interrupted", "max_time")
    assert last_of(late)["global_step"] == 3
    answer, rest = fit("--trainer.max_time", "00:01:00:00", "--ckpt_path", str(late))
    assert answer.code == 0, answer.err
    one, other = last_of(rest), last_of(whole)
    for key in ("state_dict", "optimizer_states", "loops"):
        assert_same(one[key], other[key], key)


def test_more_signals_while_it_is_saved_change_nothing(fit, harm, monkeypatch):
    monkeypatch.setattr(signals, "AGAIN_SECONDS", -1.0)
    answer, folder = fit(*harm("SendWhileSaving", number=signal.SIGINT))
    assert answer.code == 130
    assert read_result(folder)["status"] == "interrupted"
    assert last_of(folder)["global_step"] == 3
    assert (folder / "checkpoints" / "best.ckpt").exists()


def test_a_program_that_is_still_starting_ends_with_one_line(tmp_path):
    command = [sys.executable, "-m", "gnn_depth", "fit", f"--run.root={tmp_path}"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 60
    # SIGTERM is caught (its bit is set) before the first large import.
    while not _catches(process.pid, signal.SIGTERM):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (
        143,
        b"terminated before the training began: nothing was saved.\n",
    )
    assert not list(tmp_path.iterdir())


def _catches(pid: int, number: signal.Signals) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)
