"""Every change that the command ``gnn-depth`` makes to its process; importing the package makes
none.

Permanent changes are in :func:`prepare_for_training`. Warnings and log levels are changed for a
while and restored. Signal handlers are in :mod:`gnn_depth.signals`, which restores them too.
"""

import ctypes
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gnn_depth.nn.variants.compile import keep_compiled_code

# How the messages begin that are not shown.
WARNINGS = (
    # A config asks for it by null; Lightning's note says that it takes 0.
    "No seed found",
    # There is no DataLoader, the graph is in memory.
    "The .* does not have many workers",
    # Every run has its own folder.
    "Checkpoint directory .* exists and is not empty",
    # A sweep's run has its result there from the start.
    "Experiment logs directory .* exists and is not empty",
    # Lightning's calls of jsonargparse.
    r"\s*By default only one JsonargparseDeprecationWarning",
    r"\s*\S+ (parameter )?was deprecated in v4",
    # It is refused with an error by make_trainer.
    "You passed .* but AMP with fp16 is not supported on CPU",
    # Lightning's call of PyTorch.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
LOGGERS = ("lightning.fabric", "lightning.pytorch")
#: mallopt(3): M_MMAP_THRESHOLD at glibc's maximum of 32 MB, and M_TRIM_THRESHOLD of 2 GiB. Fetching
#: new pages from the system for the tensors of every step would take a good part of it.
MALLOC = {-3: 1 << 25, -1: (1 << 31) - 1}
WRITER = "_AsyncWriterThread"


def prepare_for_training(keep_memory: bool) -> None:
    """Keep compiled code and, if asked, freed memory; drop the traceback of TensorBoard's writer on
    a full disk."""
    keep_compiled_code()
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
    return any(name.startswith("MALLOC_") for name in environment) or any(
        "malloc" in environment.get(name, "") for name in ("GLIBC_TUNABLES", "LD_PRELOAD")
    )


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


@contextmanager
def quiet() -> Iterator[None]:
    """Drop Lightning's notes, and warnings of libraries that a user of this command can do nothing
    about."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for start in WARNINGS:
                warnings.filterwarnings("ignore", start)
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
