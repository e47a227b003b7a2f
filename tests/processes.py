"""Several processes that share one start: each import of torch takes seconds."""

import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable

from lightning.pytorch.utilities import rank_zero_only


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
    assert not any(os.waitpid(child, 0)[1] for child in children), "another process has failed"


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
