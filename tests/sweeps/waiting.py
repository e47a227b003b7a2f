"""What tests with other processes wait for."""

import os
import time
from collections.abc import Callable, Sequence

import psutil


def eventually(condition: Callable[[], object], seconds: float = 60) -> bool:
    """Whether a condition holds within some seconds."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return bool(condition())


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be buried does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_server(unless_it_imported: Sequence[str] = ()) -> None:
    """End the server that forks workers, if there is one: the next pool then starts its own.

    One that has imported the modules which the next pool wants may stay: they take seconds.
    """
    for child in psutil.Process().children():
        command = " ".join(child.cmdline())
        has_all = all(f"'{module}'" in command for module in unless_it_imported)
        may_stay = bool(unless_it_imported) and has_all
        if "forkserver" in command and not may_stay:
            child.kill()
            # Not reaped here: multiprocessing does it when it starts another server.
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
