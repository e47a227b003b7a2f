"""The one place where an exception becomes words, for every command.

- Raised by this package: the message of a ValueError that we raise, or of one of :data:`USAGE`.
- Raised by the user's code: the part, its file and line, and what it raised.
- Raised by a library that refuses what it was asked for: the library's own words.

Everything else is a bug, and keeps its traceback.
"""

import inspect
import os
import re
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gnn_depth import registry

OURS = Path(registry.__file__).parent
LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)
#: Exceptions that say what was asked for wrongly.
USAGE = ("ConfigError", "DataError", "MisconfigurationException", "ReportError", "TooLargeError")
#: Messages of libraries that need other words; {0} is the whole match, {1} its first group.
REWORDED = {
    r"can't allocate memory: you tried to allocate (\d+) bytes|Unable to allocate ([\w. ]+)": (
        "this needs more memory than there is: {0}."
    ),
    r"conditioned on metric `(.*?)` which is not available[^:]*: (.*)": (
        "there is no metric {1!r}. Available: {2}."
    ),
    r"Error\(s\) in loading state_dict for \w+:\s*((?:.*\n?){1,3})": (
        "the checkpoint's weights do not fit this model; was its code, or a plugin's, edited "
        "since?\n{1}"
    ),
}
LOST = (
    "stopped: another process of this training has ended, or its connection was lost; the reason "
    "is in its message."
)
TRACEBACK = "GNN_DEPTH_TRACEBACK"
LINES = 8  # of a message that is passed on
# Characters of a line, and lines of a message: both may hold what somebody else wrote.
WIDEST, LONGEST = 600, 60
Frames = list[tuple[FrameType, int]]


class UsageError(Exception):
    """The user asked for something that does not exist or does not fit; only the message is shown,
    exit code 2."""


class RunError(Exception):
    """A run cannot continue, for a known reason; only the message is shown, exit code 1."""


def on_screen(message: str) -> str:
    """A message that fits one screen, and in which control characters are shown instead of sent to
    the terminal."""
    lines = []
    for line in message.split("\n"):
        shown = ""
        for character in line:
            if not character.isprintable() and character != "\t":
                character = repr(character)[1:-1]
            shown += character
        if len(shown) > WIDEST:
            shown = f"{shown[: WIDEST // 2]} ... {shown[-WIDEST // 2 :]}"
        lines.append(shown)
    if len(lines) > LONGEST:
        lines = [*lines[:LONGEST], f"... and {len(lines) - LONGEST} lines more"]
    return "\n".join(lines)


def innermost(error: BaseException) -> BaseException:
    """The original error of a constructor, without the exceptions that the parser wraps around
    it."""
    # Only these: other causes say more together with what they led to.
    while error.__cause__ is not None and re.search(
        r"Subtypes: \[|^Problem with given class_path", str(error)
    ):
        error = error.__cause__
    return error


@contextmanager
def explained(where: Callable[[], Path | str | None] | None = None) -> Iterator[None]:
    """Turn exceptions into usage errors and, once ``where`` names a run's folder, run errors."""
    try:
        yield
    except SystemExit as stop:
        frames = list(traceback.walk_tb(stop.__traceback__))
        if frames and _owner(frames[-1][0]) == "user":
            frame, line = frames[-1]
            place = f"{os.path.relpath(frame.f_code.co_filename)}:{line}"
            raise RunError(f"stopped: {place} ends the program: {_line(frame, line)}") from stop
        raise
    except Exception as error:
        folder: Path | str | None = None
        if where is not None:
            folder = where()
        known = in_words(error, folder)
        if known is error or known is None:
            raise
        raise known from error


def in_words(error: Exception, where: Path | str | None = None) -> UsageError | RunError | None:
    """An exception in words; None for a bug. See :func:`explained`."""
    if isinstance(error, UsageError | RunError):
        return error
    cause = innermost(error)
    frames = list(traceback.walk_tb(error.__traceback__))
    if cause is not error:
        frames += traceback.walk_tb(cause.__traceback__)
    said = _said_by_us(cause, frames, where)
    if said:
        return said
    text = _of_users_code(cause, frames) or _of_a_library(cause, frames)
    if not text:
        return None
    if where is None:
        return UsageError(text)
    return RunError(f"stopped: {text}")


def _said_by_us(
    error: BaseException, frames: Frames, where: Path | str | None
) -> UsageError | RunError | None:
    """The message for an exception that this package raised, or that is known to it; None for
    others."""
    for pattern, better in REWORDED.items():
        found = re.search(pattern, str(error))
        if found:
            groups = [textwrap.shorten(group, WIDEST) for group in (found[0], *found.groups(""))]
            return UsageError(better.format(*groups))
    # By name, here and in USAGE: importing the classes would take seconds.
    names = {cls.__name__ for cls in type(error).__mro__}
    if "Diverged" in names:
        return RunError(f"diverged: {error}")
    owners = [_owner(frame) for frame, _ in frames]
    not_of_libraries = [owner for owner in owners if owner != "library"]
    if not_of_libraries[-1:] == ["user"]:  # a library that the user's code calls
        return None
    raised_by_us = owners[-1:] == ["ours"] and _line(*frames[-1]).startswith("raise ")
    if names & set(USAGE) or (raised_by_us and isinstance(error, ValueError)):
        return UsageError(str(error))
    if isinstance(error, OSError):
        # A full disk, a folder that was removed, a connection that was lost.
        place = error.filename or where
        what = str(error)
        if error.strerror and place:
            what = f"{error.strerror} ({place})"
        if error.strerror and where:
            what += "; what was saved before is intact."
        return RunError(f"stopped: {what}")
    if where and ("gloo" in str(error) or type(error).__module__.startswith("torch.distributed")):
        return RunError(LOST)
    return None


def _of_users_code(error: BaseException, frames: Frames) -> str | None:
    """An exception of code outside this package and the libraries; None if it has no share in
    it."""
    last = next((place for place in reversed(frames) if _owner(place[0]) != "library"), None)
    part = _users_class(error, frames)
    if last and _owner(last[0]) == "user":
        frame, line = last
        file = os.path.relpath(frame.f_code.co_filename)  # as the user would type it here
        if file.startswith(".."):
            file = frame.f_code.co_filename
        told = f"{file}:{line}: {_line(frame, line)}"
    elif part:
        # The signature that its method must have: of __init__ if the error names it, else of
        # forward.
        base = next(cls for cls in part.__mro__ if not _is_users(cls))
        method = "forward"
        if "__init__" in str(error):
            method = "__init__"
        takes = "self, ..."
        if hasattr(base, method):
            takes = ", ".join(inspect.signature(getattr(base, method)).parameters)
        told = f"its {method} must begin as in {base.__name__}: def {method}({takes})"
    else:
        return None
    who, known, check = "your code", None, ""
    if part is not None:
        who, known = registry.described(part), registry.name_of(part)
    if known is not None and known[0] != "data":
        check = f" check_{known[0]} of gnn_depth.testing tries the part alone."
    calls = f"{TRACEBACK}=1 shows all calls that led to it."
    return f"{who} raises {_named(error)}\n  {told}\nFix it there.{check} {calls}"


def _users_class(error: BaseException, frames: Frames) -> type | None:
    """The user's class whose method is deepest on the stack, or which a TypeError says it cannot
    construct."""
    for frame, _ in reversed(frames):
        cls = type(frame.f_locals.get("self"))
        if _is_users(cls):
            return cls
    if not isinstance(error, TypeError):
        return None
    for pair in re.findall(r"(\w+)\.__init__\(\)|abstract class (\w+)", str(error)):
        for cls in reversed(_registered()):
            if cls.__name__ in pair and _is_users(cls):
                return cls
    return None


def _registered() -> list[type]:
    """Every registered part."""
    found: list[type] = []
    for kind in registry.KINDS:
        found += registry.registered(kind).values()
    return found


def _is_users(cls: type) -> bool:
    try:
        return _owner_of_file(inspect.getfile(cls), cls.__module__) == "user"
    except (TypeError, OSError):  # built into Python
        return False


def _of_a_library(error: BaseException, frames: Frames) -> str | None:
    """The message for a call by a command, the builder or the training that a library refuses;
    None for other exceptions."""
    ours = [frame.f_code.co_filename for frame, _ in frames if _owner(frame) == "ours"]
    if not ours or _owner(frames[-1][0]) != "library":
        return None
    if Path(ours[-1]).parent.name not in ("cli", "training", OURS.name):
        return None
    deepest, number = frames[-1]
    module = str(deepest.f_globals.get("__name__", "a library"))
    lines = [f"{module.partition('.')[0]} refuses this: {_named(error)}"]
    line = _line(deepest, number)
    if not line.startswith("raise "):  # as an assert, or a division
        lines.append(f"  {module}, line {number}: {line}")
    lines.append(f"{TRACEBACK}=1 shows all calls that led to it.")
    return "\n".join(lines)


def _named(error: BaseException) -> str:
    """The exception's class and the first lines of its message."""
    lines = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ").splitlines()
    shown = [line.rstrip() for line in lines[:LINES]]
    if len(lines) > LINES:
        shown.append(f"  ... and {len(lines) - LINES} lines more")
    return "\n".join(shown)


def _owner(frame: FrameType) -> str:
    return _owner_of_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))


def _owner_of_file(file: str, module: str) -> str:
    """The owner of a file's code: ``ours``, ``user`` or ``library``; plugins are the user's."""
    if Path(file).is_relative_to(OURS):
        return "ours"
    plugins = {cls.__module__.partition(".")[0] for cls in _registered()}
    if module.partition(".")[0] in plugins - {OURS.name}:
        return "user"
    # Cython names files by their place in its source.
    is_compiled = file.endswith((".pyx", ".pxi"))
    if is_compiled or file.startswith((*LIBRARIES, "<")):
        return "library"
    return "user"


def _line(frame: FrameType, number: int) -> str:
    code = frame.f_code
    return (traceback.FrameSummary(code.co_filename, number, code.co_name).line or "").strip()
