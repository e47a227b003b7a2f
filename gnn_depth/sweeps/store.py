"""The folder of a sweep: a folder for each run, its state, and locks on runs being worked on."""

import contextlib
import datetime as dt
import fcntl
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_depth.runs import ARCHIVE, FORMAT, RESULTS, Origin, read_result, remove_parts, write_result

MAX_NAME_BYTES = 180  # of a folder; file systems take 255


class ResultWarning(UserWarning):
    """A result cannot be read."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a grid, ready to start."""

    group: str  # the name that runs with different seeds share
    seed: int
    identity: str  # checksum of its config and data: tells the run from all others of a sweep
    labels: dict[str, Any]  # on every axis
    config: dict[str, Any]  # resolved
    data_sha256: str | None  # checksum of its data, if it is known
    place: int  # in the order of the grid
    per_seed: tuple[str, ...]  # options that change with the seed

    @property
    def label(self) -> str:
        return f"{self.group} seed {self.seed}"


@dataclass(frozen=True)
class Record:
    """A run that has been started."""

    folder: Path
    result: dict[str, Any]  # its result.json

    @property
    def status(self) -> str:
        return self.result.get("status", "failed")

    @property
    def is_result(self) -> bool:
        """True if it need not be run again."""
        return self.status in RESULTS

    def value_of(self, metric: str) -> float:
        """A metric of a finished run; NaN of any other."""
        if self.status != "finished":
            return math.nan
        return float(self.result["metrics"].get(metric, math.nan))


class Store:
    """The runs of one sweep, in ``root/name/GROUP/seed_S-IDENTITY``.

    A process that works on a run holds a lock, which the operating system releases when the process
    ends, however it ends: a run whose status is ``running`` and that is not locked has died.
    """

    def __init__(self, root: str | Path, name: str) -> None:
        self.root = Path(root)
        self.name = name
        self.folder = self.root / name

    def folder_of(self, run: PlannedRun) -> Path:
        """The folder of a run."""
        # Groups whose names become equal share a folder, in which their runs have their own.
        short = run.group.replace("/", "-").encode()[:MAX_NAME_BYTES].decode(errors="ignore")
        return self.folder / short / f"seed_{run.seed}-{run.identity[:8]}"

    def records(self, begins: str = "") -> dict[str, Record]:
        """All runs that have been started, by identity; those whose identity begins so."""
        found = {}
        for path in sorted(self.folder.glob(f"*/seed_*-{begins[:8]}*/result.json")):
            try:
                record = Record(path.parent, read_result(path.parent))
            except ValueError as error:
                warnings.warn(
                    f"{path} {error}, and the run is repeated.", ResultWarning, stacklevel=2
                )
                continue
            identity = record.result.get("identity", "")
            if identity not in found or record.is_result:
                found[identity] = record
        return found

    @contextlib.contextmanager
    def claim(self, identity: str) -> Iterator[bool]:
        """Lock a run for work in this process; yields False if another process holds the lock."""
        claims = self.folder / ".claims"
        claims.mkdir(parents=True, exist_ok=True)
        with (claims / f"{identity}.lock").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = True
            except BlockingIOError:
                mine = False
            yield mine

    def archive(self, folder: Path) -> None:
        """Move a run to ``root/archive``."""
        remove_parts(folder)
        target = self.root / ARCHIVE / self.name / folder.relative_to(self.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        stamp = dt.datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")
        folder.rename(target.with_name(f"{target.name}_{stamp}"))

    def begin(self, run: PlannedRun, attempt: int = 1) -> Origin:
        """Make the folder of a run that starts now, and describe the run in ``result.json``."""
        facts = {
            "sweep": self.name,
            "group": run.group,
            "axes": run.labels,
            "per_seed": run.per_seed,
            "place": run.place,
            "identity": run.identity,
            "data_sha256": run.data_sha256,
            "attempt": attempt,
        }
        folder = self.folder_of(run)
        folder.mkdir(parents=True, exist_ok=True)
        write_result(folder, {"format": FORMAT, "status": "running", "seed": run.seed, **facts})
        return Origin(facts, folder)

    def mark(self, record: Record, status: str, reason: str) -> Record:
        """Set the status of a run on behalf of its process."""
        result = {**record.result, "status": status, "reason": reason}
        write_result(record.folder, result)
        return Record(record.folder, result)
