"""Every change that the command ``gnn-depth`` makes to its process; importing the package makes
none.

Permanent changes are in :func:`prepare_for_training`. Warnings and log levels are changed for a
while and restored, in :mod:`gnn_depth.training.loggers`; signal handlers are in
:mod:`gnn_depth.signals`, which restores them too.
"""

import ctypes
import os
import threading
from collections.abc import Mapping

#: mallopt(3): M_MMAP_THRESHOLD at glibc's maximum of 32 MB, and M_TRIM_THRESHOLD of 2 GiB. Fetching
#: new pages from the system for the tensors of every step would take a good part of it.
MALLOC = {-3: 1 << 25, -1: (1 << 31) - 1}
WRITER = "_AsyncWriterThread"


def prepare_for_training(keep_memory: bool) -> None:
    """Keep freed memory, if asked; drop the traceback of TensorBoard's writer on a full disk."""
    _drop_tracebacks_of_writer()
    if keep_memory:
        keep_freed_memory()


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


def _drop_tracebacks_of_writer() -> None:
    """Drop tracebacks of TensorBoard's writer thread: the thread that writes next raises the same
    error."""
    before = threading.excepthook
    if getattr(before, "drops_writer", False):
        return

    def hook(died: threading.ExceptHookArgs) -> None:
        if not (issubclass(died.exc_type, OSError) and type(died.thread).__name__ == WRITER):
            before(died)

    hook.drops_writer = True  # type: ignore[attr-defined]
    threading.excepthook = hook
