"""Drop what libraries say during a training that its user can do nothing about, for a while."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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
    # Whoever asks for the CPU on a machine with a GPU knows it.
    "GPU available but not used",
    # Lightning's call of PyTorch.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
LOGGERS = ("lightning.fabric", "lightning.pytorch")


@contextmanager
def quiet() -> Iterator[None]:
    """Drop Lightning's notes and tips, and such warnings; levels and filters are restored."""
    before = []
    for name in LOGGERS:
        logger = logging.getLogger(name)
        before.append((logger, logger.level))
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for start in WARNINGS:
                warnings.filterwarnings("ignore", start)
            yield
    finally:
        for logger, level in before:
            logger.setLevel(level)
