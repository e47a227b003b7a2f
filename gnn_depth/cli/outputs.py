"""Check output files before any work, write them atomically, and print warnings as plain lines."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnn_depth.cli.errors import UsageError, on_screen

# Here and not in predictions.py, which imports torch.
PREDICTIONS = (".csv", ".npz")
PREDICTIONS_TEXT = (
    ".csv or .npz (arrays `nodes` or `graphs`, `classes`, `probabilities` or `values`)"
)


def check_output(output: str, suffixes: Sequence[str], option: str = "--output") -> Path:
    """Raise a UsageError for the path of an option that cannot be written; called before any
    work."""
    path = Path(output)
    if not output:
        raise UsageError(f"{option} is empty: name a file, with suffix {', '.join(suffixes)}.")
    if path.is_dir():
        raise UsageError(
            f"{option} {output} is a folder: give a file in it, "
            f"{output.rstrip('/')}/NAME{suffixes[0]}."
        )
    if path.suffix not in suffixes:
        raise UsageError(
            f"{option} {output}: unknown suffix {path.suffix!r}. Available: {', '.join(suffixes)}."
        )
    if path.exists():
        raise UsageError(
            f"{option} {output}: the file exists; move it away or choose another name."
        )
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"{option} {output}: there is no folder {str(path.parent)!r}, or it cannot be written "
            "to."
        )
    return path


def check_predictions(output: str | None) -> None:
    """Raise a UsageError for a file of predictions that cannot be written; called before any
    work."""
    if output is None:
        raise UsageError(
            f"predict needs a file to write to: --output FILE, with suffix {PREDICTIONS_TEXT}."
        )
    check_output(output, PREDICTIONS)


def write_whole(path: Path, write: Callable[[Path], object], option: str = "--output") -> None:
    """Write a file atomically, without replacing another.

    ``write`` writes to the path that it is called with, which has the same suffix.
    """
    part = path.with_name(f".{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        write(part)
        # Again: another process may have made the file meanwhile.
        check_output(str(path), [path.suffix], option)
        part.replace(path)
    except Exception as error:
        # The OSError of a full disk has no file name, and libraries wrap it.
        chain: BaseException | None = error
        while chain is not None and not isinstance(chain, OSError):
            chain = chain.__cause__ or chain.__context__
        if chain is None:
            raise
        raise OSError(chain.errno, chain.strerror or str(chain), str(path)) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def plain_warnings(category: type[Warning]) -> Iterator[None]:
    """Print warnings of a category to standard error, each once and without the code that raised
    it."""
    printed: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", category)
        default_show = warnings.showwarning

        def show(message: Warning | str, kind: type[Warning], *where: Any) -> None:
            if not issubclass(kind, category):
                default_show(message, kind, *where)
            elif str(message) not in printed:
                printed.add(str(message))
                print(on_screen(f"warning: {message}"), file=sys.stderr)

        warnings.showwarning = show  # type: ignore[assignment]
        yield
