"""A clone of a repository, and its scripts run with the fewest changes that they need here."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tools.authors import stand_ins

#: The numbers of a run, without those that the released code does not tell.
Numbers = dict[str, Any]


@dataclass(frozen=True)
class Released:
    """A repository at the commit that our numbers come from."""

    name: str  # owner/name on GitHub
    commit: str
    paper: str
    stopped: str = ""  # how long a training is; "as ours", or empty: as the authors' runs

    def check(self, folder: Path) -> None:
        """Check that a folder is a clone of this commit with unchanged code.

        Raises:
            ValueError: It is another repository, has another commit, or was changed.
        """
        found = _git(folder, "rev-parse", "HEAD")
        if found != self.commit:
            raise ValueError(
                f"{str(folder)!r} is at commit {found or 'none'}, and the numbers come from "
                f"{self.name}: git -C {folder} checkout {self.commit}"
            )
        # Data files may be absent: the data is ours.
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no", "--", "*.py")
        if changed:
            raise ValueError(f"{str(folder)!r} differs from its commit: {changed.splitlines()[0]}")


class Training(NamedTuple):
    """A training to run: the arguments of a script, and the folders it reads and writes."""

    folder: Path  # a clone of the repository
    data: Path  # raw files of our data sets
    workdir: Path  # empty
    at: Mapping[str, str]  # the cell
    options: dict[str, Any]
    seed: int


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def run_script(
    folder: Path,
    name: str,
    workdir: Path,
    arguments: Sequence[str] = (),
    changes: Sequence[tuple[str, str]] = (),
    more: str = "",
    until: str = "",
) -> dict[str, Any]:
    """Run a script as from the command line, without its output; returns its variables.

    Args:
        folder: The clone.
        name: The script in it; it imports from its own folder and from the clone.
        workdir: The folder that its relative paths start from.
        arguments: Its command line.
        changes: Texts of the script and what replaces them; each must occur once.
        more: Code that follows the script.
        until: A text that occurs once; the script ends before it.

    Raises:
        ValueError: A text to be replaced does not occur exactly once.
    """
    path = folder / name
    source = path.read_text(encoding="utf-8")
    for old in (*(old for old, _ in changes), until or source):
        if source.count(old) != 1:
            raise ValueError(f"{name} has {source.count(old)} places with {old!r}, not one.")
    for old, new in changes:
        source = source.replace(old, new)
    if until:
        source = source.partition(until)[0]
    program = compile(f"{source}\n{more}\n", str(path), "exec")
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    argv, before, search = sys.argv, Path.cwd(), list(sys.path)
    silent = io.StringIO()
    try:
        sys.argv = [str(path), *arguments]
        sys.path[:0] = [str(path.parent), str(folder)]
        os.chdir(workdir)
        with stand_ins.installed(), redirect_stdout(silent), redirect_stderr(silent):
            exec(program, variables)
    finally:
        sys.argv, sys.path[:] = argv, search
        os.chdir(before)
    return variables


def from_curves(val: Sequence[float], test: Sequence[float]) -> Numbers:
    """The numbers of a run from its accuracies after each epoch, as fractions.

    Of several best epochs the first counts.
    """
    best = max(range(len(val)), key=lambda epoch: (val[epoch], -epoch))
    return {
        "values": percent(test[best]),
        "last": percent(test[-1]),
        "largest": percent(max(test)),
        "best_epochs": best + 1,
        "epochs": len(test),
    }


def percent(fraction: float) -> float:
    return round(100 * float(fraction), 2)
