"""Runs, and functions that the tests of the pools run in worker processes."""

import os
import signal
import sys
import time
from pathlib import Path

from gnn_depth.sweeps.store import PlannedRun


def planned(group: str, seed: int, identity: str, labels: dict | None = None) -> PlannedRun:
    """A run of which only this is known."""
    return PlannedRun(group, seed, identity, labels or {}, {}, "", 0, ())


def pid() -> int:
    return os.getpid()


def parent() -> int:
    return os.getppid()


def mark(folder: Path) -> int:
    """Leave a file named after this process."""
    (folder / str(os.getpid())).touch()
    return os.getpid()


def mark_and_sleep(folder: Path, seconds: float) -> int:
    mark(folder)
    time.sleep(seconds)
    return os.getpid()


def mark_both_ends(began: Path, seconds: float, ended: Path) -> int:
    mark_and_sleep(began, seconds)
    return mark(ended)


def meet(folder: Path, number: int, name: str = "") -> tuple[int, str | None]:
    """Wait until this many processes are in this function; return the process id and an environment
    variable."""
    mark(folder)
    until = time.monotonic() + 60
    while len(list(folder.iterdir())) < number:
        assert time.monotonic() < until  # else the others never came
        time.sleep(0.01)
    return os.getpid(), os.environ.get(name)


def kill_oneself(number: int) -> None:
    os.kill(os.getpid(), number)


def fail(message: str) -> None:
    raise LookupError(message)


def is_imported(name: str) -> bool:
    return name in sys.modules


def threads_used() -> tuple[int, int]:
    """The number of torch's threads, and of all threads of this process once torch has used
    them."""
    import torch

    x = torch.rand(600, 600)
    (x @ x).relu().sum()
    return torch.get_num_threads(), len(list(Path("/proc/self/task").iterdir()))


class Signalled(Exception):
    """A signal came."""


def raise_signalled(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one changes nothing
    raise Signalled


def save_on_signal(folder: Path, seconds: float = 1.0) -> str:
    """Mark the folder, wait for a signal, and take some time then, as a run that saves."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, raise_signalled)
    mark(folder)
    try:
        time.sleep(60)
    except Signalled:
        time.sleep(seconds)
        return "saved"
    return "no signal"
