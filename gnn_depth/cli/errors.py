"""The one place where an exception becomes a message, for every command.

- A ValueError that this package raises, or one of :data:`USAGE`: its message.
- An exception in the user's code: the part, its file and line, and what it raised.
- An exception of a library that a command, the builder or the training calls: the library's words.

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
#: Exceptions for what was asked for wrongly, by name: importing the classes would take seconds.
USAGE = {"ConfigError", "DataError", "MisconfigurationException", "ReportError", "TooLargeError"}
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


class UsageError(Exception):
    """The user asked for something that does not exist or does not fit; only the message is shown,
    exit code 2."""


class RunError(Exception):
    """A run cannot continue, for a known reason; only the message is shown, exit code 1."""


def on_screen(message: str) -> str:
    """A message that fits one screen, with control characters shown instead of sent to the
    terminal."""
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
    wrapped = r"Subtypes: \[|^Problem with given class_path"
    while error.__cause__ is not None and re.search(wrapped, str(error)):
        error = error.__cause__
    return error


@contextmanager
def explained(where: Callable[[], Path | str | None] | None = None) -> Iterator[None]:
    """Turn exceptions into usage errors and, once ``where`` names a run's folder, run errors."""
    try:
        yield
    except SystemExit as stop:
        *_, (frame, line) = traceback.walk_tb(stop.__traceback__)
        if _owner(frame) == "user":
            raise RunError(f"stopped: {_place(frame, line)} ends the program") from stop
        raise
    except Exception as error:
        folder = None
        if where is not None:
            folder = where()
        known = explanation(error, folder)
        if known is error or known is None:
            raise
        raise known from error


def explanation(error: Exception, folder: Path | str | None = None) -> UsageError | RunError | None:
    """The error to show for an exception; None for a bug. See :func:`explained`."""
    if isinstance(error, UsageError | RunError):
        return error
    cause = innermost(error)
    frames = list(traceback.walk_tb(error.__traceback__))
    if cause is not error:
        frames += traceback.walk_tb(cause.__traceback__)
    owners = [_owner(frame) for frame, _ in frames]
    callers = [owner for owner in owners if owner != "library"]

    for pattern, better in REWORDED.items():
        found = re.search(pattern, str(cause))
        if found:
            groups = [textwrap.shorten(group, WIDEST) for group in (found[0], *found.groups(""))]
            return UsageError(better.format(*groups))
    names = {cls.__name__ for cls in type(cause).__mro__}
    if "Diverged" in names:
        return RunError(f"diverged: {cause}")
    if callers[-1:] != ["user"]:
        if names & USAGE or (owners[-1:] == ["ours"] and isinstance(cause, ValueError)):
            return UsageError(str(cause))
        if isinstance(cause, OSError):
            return RunError(_of_the_system(cause, folder))
        is_of_processes = "gloo" in str(cause) or type(cause).__module__ == "torch.distributed"
        if folder and is_of_processes:
            return RunError(LOST)
    message = _of_users_code(cause, frames, owners) or _of_a_library(cause, frames, owners)
    if message is None:
        return None
    if folder is None:
        return UsageError(message)
    return RunError(f"stopped: {message}")


def _of_the_system(error: OSError, folder: Path | str | None) -> str:
    """The message for a full disk, a folder that was removed or a connection that was lost."""
    place = error.filename or folder
    reason = str(error)
    if error.strerror and place:
        reason = f"{error.strerror} ({place})"
    if error.strerror and folder:
        reason += "; what was saved before is intact."
    return f"stopped: {reason}"


def _of_users_code(
    error: BaseException, frames: list[tuple[FrameType, int]], owners: list[str]
) -> str | None:
    """The message for an exception of code outside this package and the libraries; None for
    others."""
    part = _users_part(error, frames)
    place = None
    for (frame, line), owner in zip(frames, owners, strict=True):
        if owner != "library":
            place = _place(frame, line) if owner == "user" else None
    if place is None and part is None:
        return None
    if place is None:
        assert part is not None
        place = _signature(error, part)
    who, check = "your code", ""
    known = None
    if part is not None:
        who, known = registry.described(part), registry.name_of(part)
    if known is not None and known[0] != "data":
        check = f" check_{known[0]} of gnn_depth.testing tries the part alone."
    calls = f"{TRACEBACK}=1 shows all calls that led to it."
    return f"{who} raises {_shown(error)}\n  {place}\nFix it there.{check} {calls}"


def _signature(error: BaseException, part: type) -> str:
    """The signature that a part's method must have: of __init__ if the error names it, else of
    forward."""
    base = next(cls for cls in part.__mro__ if not _is_users(cls))
    method = "__init__" if "__init__" in str(error) else "forward"
    takes = "self, ..."
    if hasattr(base, method):
        takes = ", ".join(inspect.signature(getattr(base, method)).parameters)
    return f"its {method} must begin as in {base.__name__}: def {method}({takes})"


def _users_part(error: BaseException, frames: list[tuple[FrameType, int]]) -> type | None:
    """The user's class whose method is deepest on the stack, or which a TypeError cannot make."""
    for frame, _ in reversed(frames):
        cls = type(frame.f_locals.get("self"))
        if _is_users(cls):
            return cls
    if not isinstance(error, TypeError):
        return None
    named = re.findall(r"(\w+)\.__init__\(\)|abstract class (\w+)", str(error))
    words = {word for pair in named for word in pair}
    for cls in reversed(_registered()):
        if cls.__name__ in words and _is_users(cls):
            return cls
    return None


def _of_a_library(
    error: BaseException, frames: list[tuple[FrameType, int]], owners: list[str]
) -> str | None:
    """The message for a call by a command, the builder or the training that a library refuses;
    None for other exceptions."""
    if "ours" not in owners or owners[-1] != "library":
        return None
    last = len(owners) - 1 - owners[::-1].index("ours")
    caller = Path(frames[last][0].f_code.co_filename).parent
    if caller.name not in ("cli", "training", OURS.name):
        return None
    deepest, line = frames[-1]
    module = str(deepest.f_globals.get("__name__", "a library"))
    return (
        f"{module.partition('.')[0]} refuses this: {_shown(error)}\n  {module}, line {line}\n"
        f"{TRACEBACK}=1 shows all calls that led to it."
    )


def _shown(error: BaseException) -> str:
    """The exception's class and the first lines of its message."""
    lines = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ").splitlines()
    shown = [line.rstrip() for line in lines[:LINES]]
    if len(lines) > LINES:
        shown.append(f"  ... and {len(lines) - LINES} lines more")
    return "\n".join(shown)


def _registered() -> list[type]:
    found: list[type] = []
    for kind in registry.KINDS:
        found += registry.registered(kind).values()
    return found


def _is_users(cls: type) -> bool:
    try:
        return _owner_of_file(inspect.getfile(cls), cls.__module__) == "user"
    except (TypeError, OSError):  # built into Python
        return False


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
    if file.startswith((*LIBRARIES, "<")) or file.endswith((".pyx", ".pxi")):
        return "library"
    return "user"


def _place(frame: FrameType, number: int) -> str:
    """File, line and code of a frame, with the file as the user would type it here."""
    code = frame.f_code
    file = os.path.relpath(code.co_filename)
    if file.startswith(".."):
        file = code.co_filename
    text = traceback.FrameSummary(code.co_filename, number, code.co_name).line or ""
    return f"{file}:{number}: {text.strip()}"
