"""Functions that the tests of the engines run in worker processes."""

import os
import signal
import sys
import time
from pathlib import Path

_held: list[bytearray] = []


def pid() -> int:
    return os.getpid()


def mark(folder: Path) -> int:
    """Leave a file of this process's name."""
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
    """Wait until so many processes are in this function, then return the process id and an environment variable."""
    mark(folder)
    until = time.monotonic() + 20
    while len(list(folder.iterdir())) < number:
        assert time.monotonic() < until, "the others never came"
        time.sleep(0.01)
    return os.getpid(), os.environ.get(name)


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hold(number_of_bytes: int) -> int:
    _held.append(bytearray(b"x" * number_of_bytes))
    return os.getpid()


def fail(message: str) -> None:
    raise LookupError(message)


def refuse() -> None:
    raise LookupError("no such plugin")


def import_wave() -> None:
    import wave  # noqa: F401


def is_imported(name: str) -> bool:
    return name in sys.modules


def torch_threads() -> int:
    import torch

    return torch.get_num_threads()
