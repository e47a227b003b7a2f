"""A run's folder, and its ``result.json``."""

import contextlib
import datetime as dt
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1  # of result.json: raised when a reader of the old one would misread the new one
RESULTS = ("finished", "diverged")  # runs with other statuses are excluded from means
# Columns of every table of runs, whatever the metrics, options and axes are.
COLUMNS = (
    "folder",
    "status",
    "sweep",
    "name",
    "seed",
    "identity",
    "attempt",
    "seconds",
    "epochs",
    "steps",
    "best_epoch",
    "monitor",
    "metric",
    "constant",
    "initial_averages",
    "num_parameters",
    "started",
    "reason",
    "version",
)
LOCK = ".lock"  # file of a run's folder, locked by the process that trains it

MAX_NAMED = 5  # runs that a message names
CHECKSUM = "checksum"  # key in a result.json: SHA-256 of everything else in it
ARCHIVE = "archive"  # folder, among all runs, of those that --force replaced
PACKAGES = (
    "gnn-depth",
    "torch",
    "lightning",
    "torch-geometric",
    "torchmetrics",
    "jsonargparse",
    "numpy",
)


@dataclass(frozen=True)
class Origin:
    """The sweep that a run belongs to, if any."""

    # Entries for its result.json: the identity of the run, and of the sweep.
    facts: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None  # an existing one; by default the run gets a new one


def new_run_folder(root: str | Path, name: str) -> Path:
    """Make the folder ``root/name/DATE_TIME``, with ``_2`` after it if a run has started in the
    same second.

    Raises a ValueError if the folder cannot be made, or the name leads out of the root.
    """
    parent = Path(root) / name
    if not parent.resolve().is_relative_to(Path(root).resolve()):
        raise ValueError(
            f"the run's name {name!r} leads out of {str(root)!r}; choose the folder with "
            "--run.root."
        )
    stamp = dt.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder, count = parent / stamp, 1
        while True:
            try:
                # It fails if there is one: no two processes get the same folder.
                folder.mkdir()
                return folder
            except FileExistsError:
                count += 1
                folder = parent / f"{stamp}_{count}"
    except OSError as error:
        raise ValueError(
            f"the run's folder cannot be made under {str(parent)!r} ({error.strerror}); choose "
            "another with --run.root."
        ) from error


def single_run(folder: Path) -> Path:
    """The run in a folder: itself, or the only one below it, in a folder of a name or of all runs.

    Raises:
        ValueError: There are several, of which the newest are named.
    """
    files = [*folder.glob("*/checkpoints/*.ckpt"), *folder.glob("*/*/checkpoints/*.ckpt")]
    found = {file.parents[1] for file in files}
    if not found or any(folder.glob("checkpoints/*.ckpt")):
        return folder
    # The name of a run is when it began.
    newest = sorted(found, key=lambda run: (run.name, run), reverse=True)
    if len(newest) > 1:
        shown = "".join(f"\n  {run}" for run in newest[:MAX_NAMED])
        raise ValueError(
            f"{str(folder)!r} has {len(newest):,} runs; choose one, the newest first:{shown}"
        )
    return newest[0]


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file atomically: after a crash it is either complete or absent.

    Raises:
        OSError: It cannot be written; the error names it.
    """
    if isinstance(content, str):
        content = content.encode()
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:  # on a full disk, for example, the part would take room
        part.unlink(missing_ok=True)


def write_result(folder: Path, result: dict[str, Any]) -> None:
    """Write ``result.json`` with its checksum; numbers that are not finite become strings, for
    every JSON reader.

    Raises:
        OSError: It cannot be written; the one on the disk is intact.
    """
    plain = json.loads(json.dumps(result), parse_constant=lambda text: str(float(text)))
    text = json.dumps(plain | {CHECKSUM: _checksum(plain)}, indent=2)
    write_atomically(folder / "result.json", f"{text}\n")


def read_result(folder: str | Path) -> dict[str, Any]:
    """Read ``result.json``, without its checksum.

    Raises:
        ValueError: It cannot be read, is damaged, was edited, has the format of a later version, or
            is not a result of a run; the message says which.
    """
    try:
        result = json.loads(Path(folder, "result.json").read_bytes())
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ValueError("is truncated or damaged") from error
    if not isinstance(result, dict):
        raise ValueError("is not a result of a run")
    recorded = result.pop(CHECKSUM, None)  # those of early versions have none
    if recorded not in (None, _checksum(result)):
        raise ValueError(f"is damaged or was edited: its {CHECKSUM} does not match")
    version = result.get("format", FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        raise ValueError(
            f"has format {version!r} of another gnn-depth (this one reads up to {FORMAT})"
        )
    return result


def _checksum(result: dict[str, Any]) -> str:
    return digest(json.dumps(result, sort_keys=True))


def lock(folder: Path) -> int | None:
    """Lock a run's folder until this process ends or closes the returned file; None where files
    cannot be locked."""
    file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:  # some network file systems
        os.close(file)
        (folder / LOCK).unlink(missing_ok=True)
        return None
    return file


def is_alive(folder: str | Path) -> bool | None:
    """True if a process trains this run now; None if it has no lock."""
    try:
        with Path(folder, LOCK).open("rb") as file:
            # Shared: two that look at once do not take each other for the training.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock, or none that may be looked at
        return None
    return False


def remove_parts(folder: Path) -> None:
    """Remove files that a killed process left half written in a run's folder."""
    for part in folder.rglob(".*.part"):
        part.unlink(missing_ok=True)


def environment() -> dict[str, Any]:
    """Versions of the packages that results depend on, and of the code that ran."""
    packages = {}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "packages": packages,
        "git": git_state(),
    }


def git_state() -> dict[str, Any] | None:
    """Commit of the working directory and whether it has changes; None outside a repository."""
    # A repository's own config may name a program to run as fsmonitor, which would run here.
    command = ["git", "-c", "core.fsmonitor=false", "describe", "--always", "--abbrev=40"]
    command += ["--exclude=*", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    commit, *changes = done.stdout.strip().split("-")
    return {"commit": commit, "changed": bool(changes)}


def from_here(path: Path) -> Path:
    """The path as messages name it: from the working directory, if it is below that."""
    if path.is_relative_to(Path.cwd()):
        return path.relative_to(Path.cwd())
    return path


def digest(text: str) -> str:
    """SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def event_tag(name: str) -> str:
    """The tag of a metric in TensorBoard, whose pages are sorted by tag.

    They begin with the curves of training and validation: all others have a tilde in front and come
    last, those of the test set too, because who watches these chooses by them.
    """
    if name.startswith(("train/", "val/", "~")):
        return name
    return f"~{name}"
