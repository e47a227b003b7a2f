"""The folder of a sweep: a folder for each run, its state, and locks on runs being worked on."""

import contextlib
import datetime as dt
import fcntl
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_depth.runs import (
    ARCHIVE,
    FORMAT,
    RESULTS,
    digest,
    read_result,
    remove_parts,
    write_result,
)

CLAIMS = ".claims"
MAX_NAME_BYTES = 180  # of a folder; file systems take 255


class StoreError(ValueError):
    """The results in a folder do not allow the sweep to go on."""


class ResultWarning(UserWarning):
    """A result cannot be read."""


@dataclass(frozen=True)
class RunKey:
    """The key of a run: it tells the run from all others of a sweep."""

    group: str  # the name that runs with different seeds share
    seed: int
    identity: str  # checksum of its config and data, see cli.identity

    @property
    def label(self) -> str:
        return f"{self.group} seed {self.seed}"


@dataclass(frozen=True)
class Record:
    """A run that has been started."""

    folder: Path
    result: dict[str, Any]  # its result.json

    @property
    def identity(self) -> str:
        return self.result.get("identity", "")

    @property
    def status(self) -> str:
        return self.result.get("status", "failed")

    @property
    def is_result(self) -> bool:
        """True if it need not be run again."""
        return self.status in RESULTS

    @property
    def attempt(self) -> int:
        return self.result.get("attempt", 1)

    @property
    def version(self) -> str:
        return self.result.get("packages", {}).get("gnn-depth", "unknown")

    @property
    def seconds(self) -> float:
        return self.result.get("seconds", 0.0)

    @property
    def reason(self) -> str:
        """Why it did not finish."""
        return self.result.get("reason", "")

    def value(self, metric: str) -> float | None:
        """A metric of the run, or None."""
        found = self.result.get("metrics", {}).get(metric)
        return None if found is None else float(found)


class Store:
    """The runs of one sweep, in ``root/name/GROUP/seed_S-IDENTITY``.

    A process that works on a run holds a lock, which the operating system releases when the process
    ends, however it ends: a run whose status is ``running`` and that is not locked has died.
    """

    def __init__(self, root: str | Path, name: str) -> None:
        self.root = Path(root)
        self.name = name
        self.folder = self.root / name

    def make_folder(self) -> None:
        """Make the folder of the sweep, and check that its files can be written and locked."""
        with self.claim("first"):
            pass

    def folder_of(self, key: RunKey) -> Path:
        """The folder of a run."""
        group = key.group.replace("/", "-")
        if group != key.group or len(group.encode()) > MAX_NAME_BYTES:
            # Names that became equal, or were cut, are told apart by a checksum.
            short = group.encode()[:MAX_NAME_BYTES].decode(errors="ignore")
            group = f"{short}-{digest(key.group)[:8]}"
        return self.folder / group / f"seed_{key.seed}-{key.identity[:8]}"

    def records(self) -> dict[str, Record]:
        """All runs that have been started, by identity."""
        found: dict[str, Record] = {}
        for path in sorted(self.folder.glob("*/seed_*-*/result.json")):
            record = _read(path.parent)
            if record is None:
                continue
            known = found.get(record.identity)
            if known is None or (record.is_result and not known.is_result):
                found[record.identity] = record
        return found

    def find(self, key: RunKey) -> Record | None:
        """The record of a run if it has been started, in any group."""
        found = None
        for folder in sorted(self.folder.glob(f"*/seed_*-{key.identity[:8]}")):
            record = _record_in(folder)
            is_mine = record.identity in ("", key.identity)
            if is_mine and (found is None or record.is_result):
                found = record
        return found

    @contextlib.contextmanager
    def claim(self, identity: str) -> Iterator[bool]:
        """Lock a run for work in this process; yields False if another process holds the lock."""
        (self.folder / CLAIMS).mkdir(parents=True, exist_ok=True)
        with (self.folder / CLAIMS / f"{identity}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = True
            except BlockingIOError:
                mine = False
            yield mine

    def archive(self, record: Record) -> Path:
        """Move a run to ``root/archive``."""
        remove_parts(record.folder)
        target = self.root / ARCHIVE / self.name / record.folder.relative_to(self.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        stamp = dt.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        return record.folder.rename(target.with_name(f"{target.name}_{stamp}"))

    def begin(self, key: RunKey, facts: Mapping[str, object]) -> Path:
        """Make the folder of a run that starts now, and describe the run in ``result.json``."""
        folder = self.folder_of(key)
        folder.mkdir(parents=True)
        write_result(folder, {"format": FORMAT, "status": "running", "seed": key.seed, **facts})
        return folder

    def mark(self, record: Record, status: str, reason: str) -> Record:
        """Set the status of a run on behalf of its process."""
        result = {**record.result, "status": status, "reason": reason}
        write_result(record.folder, result)
        return Record(record.folder, result)

    def check_version(self, version: str) -> None:
        """Refuse results of another version, in which the same config may give other numbers."""
        versions = {record.version for record in self.records().values() if record.is_result}
        others = sorted(versions - {version})
        if others:
            raise StoreError(
                f"{str(self.folder)!r} has results of gnn-depth {', '.join(others)}, and this is "
                f"{version}.\nChoose another folder with --root, or --force to archive them and "
                "run everything again."
            )


def _read(folder: Path) -> Record | None:
    try:
        return Record(folder, read_result(folder))
    except ValueError as error:
        warnings.warn(
            f"{folder / 'result.json'} {error}, and the run is repeated.",
            ResultWarning,
            stacklevel=3,
        )
        return None


def _record_in(folder: Path) -> Record:
    """The record in a folder; an empty one, of status failed, if there is no readable result."""
    record = _read(folder) if (folder / "result.json").exists() else None
    return record or Record(folder, {})
