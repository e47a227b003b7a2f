"""Check output files before any work, write them atomically, and print warnings as plain lines."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnn_depth.cli.errors import UsageError, on_screen


def check_output(output: str, suffixes: Sequence[str]) -> Path:
    """Raise a UsageError for an ``--output`` that cannot be written; called before any work."""
    path = Path(output)
    problem = ""
    if path.suffix not in suffixes or path.is_dir():
        problem = f"name a file with suffix {' or '.join(suffixes)}"
    elif path.exists():
        problem = "the file exists; move it away or choose another name"
    elif not os.access(path.parent, os.W_OK):
        problem = f"there is no folder {str(path.parent)!r}, or it cannot be written to"
    if problem:
        raise UsageError(f"--output {output or 'FILE'}: {problem}.")
    return path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file atomically, without replacing another.

    ``write`` writes to the path that it is called with, which has the same suffix.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        write(part)
        check_output(str(path), [path.suffix])  # another process may have made it meanwhile
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def plain_warnings(*categories: type[Warning]) -> Iterator[None]:
    """Print warnings as lines on standard error, without the code that raised them; those of some
    categories once for each text."""

    def show(message: Warning | str, *where: Any) -> None:
        print(on_screen(f"warning: {message}"), file=sys.stderr)

    with warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter("default", category)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
