"""A folder with a repository, and its scripts run with the fewest changes that they need here."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.authors import stand_ins


@dataclass(frozen=True)
class Released:
    """A repository at the commit that our numbers come from."""

    name: str  # owner/name on GitHub
    commit: str
    paper: str

    def check(self, folder: Path) -> None:
        """Refuse a folder that is not a clone of this commit, or whose code was changed.

        Raises:
            ValueError: The folder is another repository, has another commit, or was changed.
        """
        found = _git(folder, "rev-parse", "HEAD")
        if found != self.commit:
            raise ValueError(
                f"{str(folder)!r} is at commit {found or 'none'}, and the numbers come from "
                f"{self.name} at {self.commit}. Check it out: git -C {folder} checkout "
                f"{self.commit}"
            )
        # Data files may be absent: the data is ours.
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
        if changed:
            raise ValueError(f"{str(folder)!r} differs from its commit: {changed.splitlines()[0]}")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def run_script(
    path: Path,
    arguments: Sequence[str],
    workdir: Path,
    changes: Sequence[tuple[str, str]] = (),
    more: str = "",
) -> dict[str, Any]:
    """Run a script in ``workdir`` as if from the command line; returns its variables.

    Args:
        path: The script; modules beside it can be imported.
        arguments: Its command line.
        workdir: The folder that its relative paths start from.
        changes: Texts of the script and what replaces them; each must occur once.
        more: Code that follows the script.

    Raises:
        ValueError: A text to be replaced does not occur exactly once.
    """
    source = path.read_text(encoding="utf-8")
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(f"{path.name} has {source.count(old)} places with {old!r}, not one.")
        source = source.replace(old, new)
    source = f"{source}\n{more}\n"
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    with _as_main(path, arguments, workdir), stand_ins.installed(), _silent():
        exec(compile(source, str(path), "exec"), variables)
    return variables


@contextlib.contextmanager
def _as_main(path: Path, arguments: Sequence[str], workdir: Path) -> Iterator[None]:
    """The command line, the folder and the import path of a script."""
    argv, before, search = sys.argv, Path.cwd(), list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.parent))
    os.chdir(workdir)
    try:
        yield
    finally:
        os.chdir(before)
        sys.argv, sys.path[:] = argv, search


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Swallow what a script prints, progress bars included."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
