"""What follows when a signal has ended a training: how it goes on, and under SLURM that it does."""

import os
import signal
import subprocess
from pathlib import Path

from gnn_depth.cli.words import CommandLine

TIMEOUT_SECONDS = 30


def said_of(stop: BaseException, folder: Path | None, line: CommandLine) -> str:
    """Where a stopped training was saved and how it goes on; a job of SLURM that was sent SIGUSR1 is queued again.

    Args:
        stop: What ended it; its words are the signal's name.
        folder: Of the run.
        line: The command.
    """
    if folder is None:
        return "nothing was saved: a run of fast_dev_run has no folder."
    saved = f"saved: {folder / 'checkpoints' / 'last.ckpt'}"
    job = _job()
    if str(stop) != signal.SIGUSR1.name or job is None:
        return f"{saved}; the same command with --ckpt_path last goes on from there."
    if line.value_of("ckpt_path") != "auto":  # queued again, it would start from the beginning for ever
        return f"{saved}; job {job} is not queued again, because only with --ckpt_path auto it would go on from there."
    return f"{saved}; {_requeue(job)}"


def _job() -> str | None:
    """This process's job as SLURM's commands name it; None outside SLURM."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}" if array else os.environ.get("SLURM_JOB_ID")


def _requeue(job: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job], capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"job {job} could not be queued again: {error}."
    if done.returncode:
        return f"job {job} could not be queued again: scontrol said {done.stderr.strip()!r}."
    return f"job {job} is queued again."
