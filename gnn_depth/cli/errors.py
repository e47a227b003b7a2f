"""The one place where an exception becomes a message, for every command.

- A ValueError that this package raises, or one of :data:`USAGE`: its message.
- An exception in the user's code: the part, its file and line, and what it raised.
- An exception of a library that a command, the builder or the training calls: the library's words.

Everything else is a bug, and keeps its traceback.
"""

import os
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gnn_depth import registry

OURS = Path(registry.__file__).parent
LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
#: Exceptions for what was asked for wrongly, by name: importing the classes would take seconds.
USAGE = {"ConfigError", "DataError", "MisconfigurationException", "ReportError", "TooLargeError"}
#: Packages that only some commands need, and the extra that installs each.
EXTRAS = {"optuna": "optuna", "distributed": "cluster", "wandb": "loggers", "mlflow": "loggers"}
LOST = (
    "stopped: another process of this training has ended, or its connection was lost; the reason "
    "is in its message."
)
# The folders whose calls of libraries pass on what the user gave; gnn_depth has the builder.
PASSING = ("cli", "training", OURS.name)
# PyTorch's and NumPy's words for sizes that nothing can hold.
MEMORY = re.compile("allocate|Storage size|Overflow when unpacking")
TRACEBACK = "GNN_DEPTH_TRACEBACK"
# Characters of a line, and lines of a message: both may hold what somebody else wrote.
WIDEST, LONGEST = 600, 22
CALLS = f"{TRACEBACK}=1 shows all calls that led to it."


class UsageError(Exception):
    """The user asked for something that does not exist or does not fit; only the message is shown,
    exit code 2."""


class RunError(Exception):
    """A run cannot continue, for a known reason; only the message is shown, exit code 1."""


def on_screen(message: str) -> str:
    """A message that fits one screen, with control characters shown instead of sent to the
    terminal."""
    lines = []
    for line in message.expandtabs(4).split("\n")[:LONGEST]:
        shown = registry.printable(line)
        if len(shown) > WIDEST:
            first, last = shown[: WIDEST // 2], shown[-WIDEST // 2 :]
            first = first.rpartition(" ")[0] or first
            last = last.partition(" ")[2] or last
            shown = f"{first} ... {last}"
        lines.append(shown)
    return "\n".join(lines)


@contextmanager
def explained(where: Callable[[], Path | str | None] = lambda: None) -> Iterator[None]:
    """Turn exceptions into usage errors and, once ``where`` names a run's folder, run errors."""
    try:
        yield
    except Exception as error:
        known = explanation(error, where())
        if known is error or known is None:
            raise
        raise known from error


def explanation(error: Exception, folder: Path | str | None = None) -> UsageError | RunError | None:
    """The error to show for an exception; None for a bug. See :func:`explained`."""
    if isinstance(error, UsageError | RunError):
        return error
    # The deepest call of this package or of the user, and the user's class with the deepest method.
    owner, caller, line, part, deepest = "library", "", 0, None, ""
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        deepest = _owner(file, str(frame.f_globals.get("__name__")))
        if deepest != "library":
            owner, caller, line = deepest, file, number
        if deepest == "user" and "self" in frame.f_locals:
            part = type(frame.f_locals["self"])
    raised = f"{type(error).__name__}: {str(error).strip()}"
    names = {cls.__name__ for cls in type(error).__mro__}

    if "Diverged" in names:
        return RunError(f"diverged: {error}")
    if owner != "user":
        if names & USAGE or (deepest == "ours" and isinstance(error, ValueError)):
            who = "Lightning refuses this: " if deepest == "library" else ""
            return UsageError(f"{who}{error}")
        for package, extra in EXTRAS.items():
            # Lightning names it in its sentence alone: Requirement 'wandb>=0.12.10' not met.
            named = isinstance(error, ModuleNotFoundError) and error.name == package
            if named or f"Requirement '{package}" in str(error):
                command = f"pip install 'gnn-depth[{extra}]'"
                return UsageError(f"this needs the package {package}: {command}.")
        if isinstance(error, OSError):
            # A full disk, a folder that was removed or a connection that was lost.
            place = error.filename or folder
            reason = str(error)
            if error.strerror and place:
                reason = f"{error.strerror} ({place})"
                if folder:
                    reason += "; what was saved before is intact."
            return RunError(f"stopped: {reason}")
        if folder and ("gloo" in str(error) or type(error).__module__ == "torch.distributed"):
            return RunError(LOST)
    for cls in _parts():
        # A call that does not fit, or a part that did not call super().__init__().
        is_named = str(error).startswith((f"{cls.__name__}.", f"'{cls.__name__}' object has no"))
        if is_named and isinstance(error, TypeError | AttributeError) and registry.written_at(cls):
            part = cls
    if owner == "user":
        who = "your code"
        if part is not None:
            who = registry.described(part)
        message = f"{who} raises {raised}\n  {os.path.relpath(caller)}:{line}"
    elif part is not None:
        message = f"{registry.described(part)} cannot be called in its place: {raised}"
    elif MEMORY.search(raised) or (deepest == "library" and Path(caller).parent.name in PASSING):
        message = f"a library refuses this: {raised}\n  {file}:{number}"
    else:
        return None
    if folder is None:
        return UsageError(f"{message}\n{CALLS}")
    return RunError(f"stopped: {message}\n{CALLS}")


def _parts() -> list[type]:
    """All registered classes."""
    found: list[type] = []
    for kind in registry.KINDS:
        found += registry.registered(kind).values()
    return found


def _owner(file: str, module: str) -> str:
    """The owner of a file's code: ``ours``, ``user`` or ``library``; plugins are the user's."""
    if Path(file).is_relative_to(OURS):
        return "ours"
    top = module.partition(".")[0]
    if any(top == cls.__module__.partition(".")[0] for cls in _parts()):
        return "user"
    # Cython names files by their place in its source.
    if file.startswith((*LIBRARIES, "<")) or file.endswith((".pyx", ".pxi")):
        return "library"
    return "user"
