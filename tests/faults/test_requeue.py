"""SLURM ends a job before its time is up, and starts it again with the same command."""

import os
import signal
from pathlib import Path

import pytest

from gnn_depth.runs import read_result

JOB = {"JOB_ID": "4711", "JOB_NAME": "train"}
JOB |= dict.fromkeys(["NTASKS", "NTASKS_PER_NODE", "NNODES"], "1")
JOB |= dict.fromkeys(["NODEID", "PROCID", "LOCALID"], "0")


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """``scontrol()``: what was asked of SLURM; ``scontrol(1)`` has it refuse from now on."""
    for name, value in JOB.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    asked.touch()
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")

    def answer(code: int | None = None) -> list[str]:
        if code is not None:
            script = f'#!/bin/sh\necho "$@" >> {asked}\necho "Requested operation is disabled" >&2\nexit {code}\n'
            (tools / "scontrol").write_text(script)
            (tools / "scontrol").chmod(0o755)
        return asked.read_text().splitlines()

    answer(0)
    return answer


def test_a_requeued_job_resumes_with_the_same_command(fit, harm, scontrol):
    words = [*harm("Send", number=signal.SIGUSR1), "--ckpt_path", "auto"]
    answer, first = fit(*words)
    assert answer.code == 138
    assert "job 4711 is queued again." in answer.err
    assert scontrol() == ["requeue 4711"]
    answer, second = fit(*words)
    assert answer.code == 0, answer.err
    result = read_result(second)
    assert (result["status"], result["epochs"]) == ("finished", 4)
    assert result["resumed_from"] == str(first / "checkpoints" / "last.ckpt")
    assert scontrol() == ["requeue 4711"]
    assert "already complete: 4 epochs" in fit(*words)[0].out
    assert not list(Path().glob("hpc_ckpt*"))  # of Lightning's own handler


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (signal.SIGUSR1, [], "job 4711 is not queued again"),
        (signal.SIGTERM, ["--ckpt_path", "auto"], "--ckpt_path runs/"),
    ],
)
def test_a_job_is_not_queued_again_where_it_would_start_anew_or_was_cancelled(
    fit,
    harm,
    scontrol,
    number,
    words,
    said,
):
    answer, folder = fit(*harm("Send", number=number), *words)
    assert said in answer.err
    assert scontrol() == []
    assert (folder / "checkpoints" / "last.ckpt").exists()
