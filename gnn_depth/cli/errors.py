"""Errors that end a command without a traceback, and readable messages for known exceptions of libraries.

Everything that is not turned into one of these is a bug, and keeps its traceback.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class UsageError(Exception):
    """The user asked for something that does not exist or does not fit; only the message is shown, exit code 2."""


class RunError(Exception):
    """A run cannot continue, for a known reason; only the message is shown, exit code 1."""


def innermost(error: BaseException) -> BaseException:
    """The original error of a constructor, without the exceptions that the parser wraps around it."""
    while error.__cause__ is not None and "Subtypes: [" in str(error):
        error = error.__cause__
    return error


@contextmanager
def explain_build() -> Iterator[None]:
    """Turn the errors of building data, model and trainer into usage errors.

    Raises:
        UsageError: The parts do not fit together, or this machine lacks something they need.
    """
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    try:
        yield
    except (ValueError, MisconfigurationException) as error:
        cause = innermost(error)
        if not isinstance(cause, ValueError | MisconfigurationException):
            raise  # a bug that the parser has wrapped
        if "No supported gpu backend" in str(cause):
            raise UsageError(
                "trainer.accelerator gpu: PyTorch finds no GPU here. Use cpu, or auto for the best available device; "
                "if the machine has a GPU, PyTorch may be a build for CPUs only."
            ) from error
        raise UsageError(str(cause)) from error
    except RuntimeError as error:
        twice = re.match(r"Found more than one stateful callback of type `(\w+)`", str(error))
        if not twice:
            raise
        raise UsageError(f"trainer.callbacks has {twice[1]} more than once: keep one of them.") from error


@contextmanager
def explain_run(where: Callable[[], Any]) -> Iterator[None]:
    """Turn the known errors of a run into usage errors and run errors.

    Args:
        where: Returns the folder that the run writes to, for disk errors.

    Raises:
        UsageError: Something that was asked for does not fit.
        RunError: The training diverged, its files cannot be written, or another process of it has ended.
    """
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    from gnn_depth.data.checks import DataError
    from gnn_depth.training import Diverged

    try:
        yield
    except (DataError, MisconfigurationException) as error:
        raise UsageError(str(error)) from error
    except Diverged as error:
        raise RunError(f"diverged: {error}") from error
    except RuntimeError as error:
        if "conditioned on metric" in str(error):  # EarlyStopping, for a metric that nobody logs
            raise UsageError(str(error)) from error
        if "gloo" in str(error) or type(error).__module__.startswith("torch.distributed"):
            raise RunError(
                "stopped: another process of this training has ended, or its connection was lost; "
                "the reason is in the message of that process."
            ) from error
        raise
    except OSError as error:  # a full disk, a folder that was removed
        place = error.filename or where()
        what = f"{error.strerror} ({place}); what was saved before is intact." if error.strerror else error
        raise RunError(f"stopped: {what}") from error
