"""What a checkpoint holds stands in for what is not said, and what is damaged is not used."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.cli.conftest import QUIET, SHORT

TWO = ["--trainer.max_epochs", "2"]
CPU = [*QUIET, "--trainer.accelerator", "cpu"]


@pytest.fixture
def folder(gnn_depth: Callable) -> Path:
    answer = gnn_depth("fit", *SHORT, *TWO, "--data.seed", "3", "--run.name", "first")
    assert answer.code == 0, answer.err
    (folder,) = Path("runs/first").iterdir()
    return folder


def test_a_model_is_tested_on_the_data_that_it_was_trained_on(folder: Path, gnn_depth: Callable):
    answer = gnn_depth("test", *CPU, "--ckpt_path", str(folder / "checkpoints/last.ckpt"))
    assert answer.code == 0, answer.err
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    assert f"{metrics['test/f1']:.6f}"[:7] in answer.out


def test_other_data_is_tested_on_where_it_is_asked_for(folder: Path, gnn_depth: Callable):
    words = ["test", *CPU, "--ckpt_path", str(folder / "checkpoints/last.ckpt")]
    assert gnn_depth(*words).out != gnn_depth(*words, "--data.seed", "4").out


def test_a_training_does_not_go_on_with_other_data(folder: Path, gnn_depth: Callable):
    words = ["fit", *CPU, "--trainer.max_epochs", "4", "--ckpt_path", str(folder / "checkpoints/last.ckpt")]
    answer = gnn_depth(*words, "--data.seed", "4")
    assert answer.code == 2
    assert "data.init_args.seed: 3 in the checkpoint, 4 asked for" in answer.err
    answer = gnn_depth(*words)
    assert answer.code == 0, answer.err
    assert "finished after 4 epochs" in answer.out


@pytest.mark.parametrize("name", ["best.ckpt", "last.ckpt"])
def test_one_flipped_bit_is_noticed(folder: Path, gnn_depth: Callable, name: str):
    path = folder / "checkpoints" / name
    content = bytearray(path.read_bytes())
    with ZipFile(path) as archive:  # between its files are gaps, where a bit is nothing to anybody
        largest = max(archive.infolist(), key=lambda file: file.file_size)
        written = archive.read(largest)
    content[content.index(written) + len(written) // 2] ^= 1
    path.write_bytes(content)
    answer = gnn_depth("test", *CPU, "--ckpt_path", str(path))
    assert answer.code == 2
    assert "is damaged" in answer.err
    assert "weights_only" not in answer.err


def test_a_metric_that_nobody_logs_is_named_without_a_traceback(gnn_depth: Callable):
    words = ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=val/x"]
    answer = gnn_depth("fit", *SHORT, *TWO, *words)
    assert answer.code == 2
    assert "`val/x` which is not available" in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model.scheduler", "ReduceLROnPlateau", "--model.scheduler.monitor", "val/los"], "Did you mean 'val/loss'"),
        (["--model.optimizer.lr", "-1"], "the optimizer refuses"),
    ],
)
def test_an_optimizer_that_cannot_work_leaves_no_folder(gnn_depth: Callable, words: list[str], message: str):
    answer = gnn_depth("fit", *SHORT, *words)
    assert answer.code == 2
    assert message in answer.err
    assert not Path("runs").exists()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_and_ends_in_its_own_exit_code(tmp_path: Path, sent: signal.Signals, code: int):
    command = [sys.executable, "-m", "gnn_depth", "fit", *SHORT, "--trainer.max_epochs", "1000000"]
    process = subprocess.Popen(
        [*command, f"--run.root={tmp_path}"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A shell's background job ignores SIGINT, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 100
        while not any(path.stat().st_size > 300 for path in tmp_path.rglob("metrics.csv")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(sent)
        assert process.wait(60) == code
    finally:
        process.kill()
        process.wait()
    (result,) = tmp_path.rglob("result.json")
    assert json.loads(result.read_text())["status"] == "interrupted"
    assert {path.name for path in tmp_path.rglob("*.ckpt")} == {"best.ckpt", "last.ckpt"}
