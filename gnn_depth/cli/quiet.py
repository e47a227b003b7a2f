"""Silence for the advice of libraries that does not apply to full-batch training on one graph."""

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Start of the message, and why nobody can act on it here.
WARNINGS = {
    "The .* does not have many workers": "there is no DataLoader, the graph is in memory",
    "Checkpoint directory .* exists and is not empty": "every run has a folder of its own",
    "Experiment logs directory .* exists and is not empty": "a sweep's run has its result there from the start",
    r"\s*By default only one JsonargparseDeprecationWarning": "Lightning calls jsonargparse so",
    r"\s*\S+ (parameter )?was deprecated in v4": "Lightning calls jsonargparse so",
    "You passed .* but AMP with fp16 is not supported on CPU": "it is refused, see assemble.py",
    r"`isinstance\(treespec, LeafSpec\)` is deprecated": "Lightning calls PyTorch so",
}
# An advertisement, and a choice that only Lightning's code has.
NOTES = ("Tip: For seamless", "`weights_only` was not set")
WRITER = "_AsyncWriterThread"
LOGGERS = (
    "lightning.pytorch.utilities.rank_zero",
    "lightning.pytorch.trainer.connectors.checkpoint_connector",
)


def _wanted(record: logging.LogRecord) -> bool:
    return not any(note in record.getMessage() for note in NOTES)


def _hush_writer() -> None:
    """Drop the traceback of TensorBoard's writer on a full disk, from now on: it may fail after the run has.

    It raises the same error in whoever writes next.
    """
    before = threading.excepthook
    if getattr(before, "hushes", False):
        return

    def hook(died: threading.ExceptHookArgs) -> None:
        if not (issubclass(died.exc_type, OSError) and type(died.thread).__name__ == WRITER):
            before(died)

    hook.hushes = True  # type: ignore[attr-defined]
    threading.excepthook = hook


@contextmanager
def quiet() -> Iterator[None]:
    """Drop these messages, and no other, while it lasts."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(_wanted)
    _hush_writer()
    try:
        with warnings.catch_warnings():
            for start in WARNINGS:
                warnings.filterwarnings("ignore", start)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(_wanted)


@contextmanager
def without_notes() -> Iterator[None]:
    """Drop Lightning's notes on seeds and accelerators, too, where nothing is trained for its own sake."""
    loggers = [logging.getLogger(name) for name in ("lightning.fabric", "lightning.pytorch")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
