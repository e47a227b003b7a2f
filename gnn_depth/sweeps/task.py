"""What a worker is told to do, and what it answers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnn_depth.sweeps.grid import Label
from gnn_depth.sweeps.store import Place, Record

ELSEWHERE = "elsewhere"


@dataclass(frozen=True)
class Task:
    """One run of a sweep.

    Attributes:
        root, sweep: The store, see :class:`~gnn_depth.sweeps.store.Store`.
        place: Where the run belongs in it.
        labels: Its label on every axis.
        config: Its resolved config.
        data_sha256: Checksum of its data.
        command: The command line of the sweep.
        retries: How often a run is started again whose process died.
        stop: A file; the run stops when it is there.
    """

    root: str
    sweep: str
    place: Place
    labels: dict[str, Label]
    config: dict[str, Any]
    data_sha256: str
    command: tuple[str, ...]
    retries: int
    stop: str

    @property
    def facts(self) -> dict[str, Any]:
        """What ``result.json`` says of where the run comes from."""
        return {
            "sweep": self.sweep,
            "group": self.place.group,
            "axes": self.labels,
            "identity": self.place.identity,
            "data_sha256": self.data_sha256,
            "command": list(self.command),
        }


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        status: As in its ``result.json``, or ``elsewhere`` where another process works on it.
        folder: Its folder.
        metrics: Its metrics.
        seconds: How long it took.
        reason: Why it did not finish.
        new: Whether it was run now; otherwise it was done already.
    """

    status: str
    folder: Path | None = None
    metrics: dict[str, Any] | None = None
    seconds: float = 0.0
    reason: str = ""
    new: bool = True

    @classmethod
    def of(cls, record: Record, new: bool = True) -> "Outcome":
        """The outcome that a run's result tells."""
        result = record.result
        reason = result.get("reason", "")
        return cls(record.status, record.folder, result.get("metrics", {}), record.seconds, reason, new)

    def value(self, metric: str) -> float | None:
        """A metric of the run; None where it has none."""
        found = (self.metrics or {}).get(metric)
        return None if found is None else float(found)
