"""Every change that the command ``gnn-depth`` makes to its process; importing the package makes
none.

The permanent one is :func:`keep_freed_memory`. Changed for a while and restored are the reports of
threads, in :func:`no_report_of_writers`, warnings and log levels, in
:mod:`gnn_depth.training.loggers`, and signal handlers, in :mod:`gnn_depth.signals`.
"""

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
    tunables, preloaded = environment.get("GLIBC_TUNABLES", ""), environment.get("LD_PRELOAD", "")
    return has_option or "malloc" in tunables or "malloc" in preloaded


@contextmanager
def no_report_of_writers() -> Iterator[None]:
    """Print no traceback for an OSError in a thread: TensorBoard's writer, which meets a full disk
    there, raises it in the training, too."""
    before = threading.excepthook

    def report(error: threading.ExceptHookArgs) -> None:
        if not issubclass(error.exc_type, OSError):
            before(error)

    threading.excepthook = report
    try:
        yield
    finally:
        threading.excepthook = before
