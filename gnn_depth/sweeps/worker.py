"""One run of a sweep: claim it, train it in its folder, and record its outcome."""

import contextlib
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gnn_depth.runs import Origin, read_result
from gnn_depth.sweeps.plan import PlannedRun
from gnn_depth.sweeps.store import Record, ResultWarning, Store

OUTPUT = "output.txt"
ELSEWHERE = "elsewhere"  # the status of a run that another process works on


class RunFailed(Exception):
    """A run failed for a known reason, which is the message."""


@dataclass(frozen=True)
class Job:
    """A run that a worker is asked to do."""

    store: Store
    run: PlannedRun
    command: tuple[str, ...]  # the command line of the sweep
    retries: int  # how often the run is started again if its process dies
    stop: str  # a file; the run stops once it exists
    train: "Train"  # trains a job's config in its folder; a function that workers can import


Train: TypeAlias = Callable[[Job, Origin], None]


def work(job: Job) -> Record:
    """Do a job, unless it is done or another process works on it; returns the run's record."""
    key = job.run.key
    with warnings.catch_warnings(), job.store.claim(key.identity) as mine:
        warnings.simplefilter("ignore", ResultWarning)  # the driver has given it
        if not mine:
            return Record(job.store.folder_of(key), {"status": ELSEWHERE})
        return _run(job)


def _run(job: Job) -> Record:
    """Train the run of a claimed job unless it has a result; earlier attempts are archived."""
    store, key = job.store, job.run.key
    known = store.find(key)
    attempt = 1
    if known and known.is_result:
        return known
    if known:
        if known.status == "running" and known.attempt > job.retries:
            reason = f"its process died {known.attempt} times; {OUTPUT} may say why."
            store.mark(known, "failed", reason)
            return _read(known.folder)
        if known.status in ("running", "failed"):
            attempt = known.attempt + 1
        if known.status == "running":
            store.mark(known, "failed", "its process died.")
        store.archive(known)
    own = store.folder_of(key)
    if Path(job.stop).exists():
        return Record(own, {"status": "interrupted"})
    if own.exists():  # it holds the result of another run, moved or edited by hand
        store.archive(Record(own, {}))
    facts = {
        "sweep": store.name,
        "group": key.group,
        "axes": job.run.labels,
        "per_seed": list(job.run.per_seed),
        "place": job.run.place,
        "identity": key.identity,
        "data_sha256": job.run.data_sha256,
        "command": list(job.command),
        "attempt": attempt,
    }
    folder = store.begin(key, facts)
    with _output_to(folder / OUTPUT):
        status, reason = _train(job, Origin(facts, folder))
    record = _read(folder)
    # Either the run ended before its recorder wrote the outcome, or the recorder knows only the
    # error's message.
    if record.status == "running" or record.status == status == "failed":
        store.mark(record, status, reason)
        record = _read(folder)
    return record


def _train(job: Job, origin: Origin) -> tuple[str, str]:
    """Train, and return status and reason in case the run has recorded neither."""
    try:
        job.train(job, origin)
    except RunFailed as error:
        return "failed", str(error)
    except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
        return "interrupted", "interrupted"
    except Exception as error:
        traceback.print_exc()
        return "failed", f"{type(error).__name__}: {error}"
    return "failed", "it ended without a result"


def _read(folder: Path) -> Record:
    return Record(folder, read_result(folder))


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send everything that this process prints, compiled code included, to a file."""
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    try:
        with (
            path.open("w", encoding="utf-8", buffering=1) as file,
            contextlib.redirect_stdout(file),
            contextlib.redirect_stderr(file),
        ):
            for descriptor in (1, 2):
                os.dup2(file.fileno(), descriptor)
            yield
    finally:
        for descriptor, before in enumerate(kept, start=1):
            os.dup2(before, descriptor)
            os.close(before)
