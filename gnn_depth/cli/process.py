"""Every change that the command ``gnn-depth`` makes to its process; importing the package makes
none.

The permanent ones are :func:`keep_freed_memory` and :func:`report_of_thread`. Warnings and log
levels are changed for a while and restored, in :mod:`gnn_depth.training.loggers`; signal handlers
are in :mod:`gnn_depth.signals`, which restores them too.
"""

import ctypes
import os
import threading
from collections.abc import Mapping

REPORT = threading.excepthook  # prints a traceback

#: mallopt(3): M_MMAP_THRESHOLD at glibc's maximum of 32 MB, and M_TRIM_THRESHOLD of 2 GiB. Fetching
#: new pages from the system for the tensors of every step would take a good part of it.
MALLOC = {-3: 1 << 25, -1: (1 << 31) - 1}


def keep_freed_memory() -> None:
    """Let glibc keep freed memory, unless the environment configures malloc; other C libraries are
    left alone."""
    if configures_malloc(os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another library, no symbols, Windows
        return
    for parameter, value in MALLOC.items():
        mallopt(parameter, value)


def configures_malloc(environment: Mapping[str, str]) -> bool:
    """True if the user has set an option of malloc, or replaced it."""
    has_option = any(name.startswith("MALLOC_") for name in environment)
    values = environment.get("GLIBC_TUNABLES"), environment.get("LD_PRELOAD")
    return has_option or "malloc" in str(values)


def report_of_thread(error: threading.ExceptHookArgs) -> None:
    """Print no traceback for an OSError: TensorBoard's writer, which meets a full disk in a thread,
    raises it in the training, too. The thread can end after the training."""
    if not issubclass(error.exc_type, OSError):
        REPORT(error)
