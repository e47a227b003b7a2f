"""Inside a worker process of this machine: prepared once, it takes one call at a time and outlives no driver."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

#: Seconds between two looks at whether the driver is still there.
LOOK = 0.5

# Held while a call runs, and for good once the driver is gone.
_running = threading.Lock()
_not_prepared: Exception | None = None


def prepare(driver: int, initializer: Callable[[], object] | None) -> None:
    """Make this process a worker of a driver, and warm it up.

    Args:
        driver: The driver's process id.
        initializer: Imports what the calls need. What it raises is kept for them: loky would take it for a crash.
    """
    global _not_prepared
    # Ctrl-C in a terminal reaches the workers too, but it is the driver that decides what becomes of their calls.
    # The signal has been blocked since before this process began: see `interrupts_blocked` in local.py.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_follow, args=(driver,), daemon=True).start()
    try:
        if initializer is not None:
            initializer()
    except Exception as error:
        _not_prepared = error


def warm() -> None:
    """The first call of every worker, since loky starts a process no sooner."""


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Call the function, if this worker could be prepared.

    Raises:
        Exception: What the initializer raised, or the function.
    """
    with _running:
        if _not_prepared is not None:
            raise _not_prepared
        return function(*args)


def _follow(driver: int) -> None:
    """Leave when the driver has been killed; a call that runs comes to its end first, so that its result is kept.

    A worker of loky would wait for its next call for ever: it holds both ends of its queue and sees no end of file.
    """
    while os.getppid() == driver:
        time.sleep(LOOK)
    _running.acquire()
    os._exit(1)
