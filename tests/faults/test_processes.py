"""A training of two processes: it stops as one, and one that fails does not leave the other
waiting."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gnn_depth.runs import read_result
from tests.cli.conftest import SHORT

TIME_LIMIT = 240.0  # on a machine with much else to do
TWO = [
    "--trainer.devices=2",
    "--trainer.strategy=ddp",
    "--model.compile=off",
    "--run.name=run",
    "--run.root=runs",
]

PLUGIN = """
import lightning as L


class Fail(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        if trainer.current_epoch == 2 and trainer.global_rank == 1:
            raise ValueError("process 1 has had enough")
"""


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Callable]:
    """``training(...)``: a fit of two processes that has begun; both are gone after the test."""
    started: list[psutil.Popen] = []
    (tmp_path / "plug_fail.py").write_text(PLUGIN)

    def start(*words: str) -> psutil.Popen:
        command = [sys.executable, "-m", "gnn_depth", "fit", *SHORT, *TWO, *words]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        started.append(
            psutil.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        family = [process] if process.poll() is None else []
        for one in [*(child for parent in family for child in parent.children()), *family]:
            one.kill()
        process.communicate()


@pytest.mark.slow  # tests/diagnostics/test_several_processes.py has one that fails
def test_an_error_in_one_of_two_processes_ends_the_other_with_one_line(
    training: Callable, tmp_path: Path
):
    process = training(
        "--trainer.max_epochs=1000000",
        "--plugins=plug_fail.py",
        "--trainer.callbacks=plug_fail.Fail",
    )
    _, said = process.communicate(timeout=TIME_LIMIT)
    assert process.returncode == 1
    assert "ValueError: process 1 has had enough" in said
    lines = [line for line in said.splitlines() if not line.startswith("[rank1]")]
    assert "Traceback" not in "\n".join(lines)
    assert any(
        line.startswith("stopped: another process of this training has ended") for line in lines
    )
    (folder,) = (tmp_path / "runs" / "run").iterdir()
    assert read_result(folder)["status"] == "failed"
