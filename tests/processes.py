"""Several processes that share one start: each import of torch takes seconds."""

import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only

from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps.waiting import end_server

ROOT = Path(__file__).parents[1]
#: What the server has imported from which sweeps and tests fork their processes.
IMPORTED = ("tests.imported",)
#: The file of a process's folder that gets all it says.
SAID = "said.txt"


def start_server() -> None:
    """Start the server of processes, unless one runs that has imported the same."""
    end_server(unless_it_imported=IMPORTED)
    folder = Path.cwd()
    os.chdir(ROOT)  # where the server finds the tests
    try:
        fresh_processes().stop(0)
    finally:
        os.chdir(folder)


def fresh_processes() -> LocalPool:
    """A pool whose processes compute with one thread each, and check no shapes."""
    return LocalPool(gpus=[], preload=IMPORTED)


#: Seconds that a call may take: a compiler's cache may be empty.
LONGEST = 900


def call_in_fresh_process(folder: Path, function: Callable, *args: object) -> object:
    """Call a function in a fresh process that works in a folder and writes there what it says."""
    start_server()
    with fresh_processes() as pool:
        # A process that waits for one that failed would wait for half an hour.
        return pool.submit(_call_in, folder, function, *args).result(LONGEST)


def _call_in(folder: Path, function: Callable, *args: object) -> object:
    os.chdir(folder)
    said = os.open(SAID, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, sys.stdout.fileno())
    os.dup2(said, sys.stderr.fileno())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args)


def in_processes(count: int, function: Callable[[int], object]) -> None:
    """Call a function with the rank of each of several processes, in the environment of a launcher
    such as torchrun.

    This process is rank 0, and the others are forked from it, so that nothing may have been
    computed before.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    children = [_forked(rank, function) for rank in range(1, count)]
    os.environ["LOCAL_RANK"] = "0"
    try:
        function(0)
    except BaseException:
        for child in children:
            os.kill(child, signal.SIGKILL)
        raise
    assert not any(os.waitpid(child, 0)[1] for child in children)  # that none has failed


def _forked(rank: int, function: Callable[[int], object]) -> int:
    if child := os.fork():
        return child
    os.environ["LOCAL_RANK"] = str(rank)
    rank_zero_only.rank = rank
    code = 1
    try:
        function(rank)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
