"""One run of a sweep: claim it, train it in its folder, and record its outcome."""

import contextlib
import os
import sys
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
RUNNING_ELSEWHERE = "running elsewhere"  # the status of a run that another process works on


class RunFailed(Exception):
    """A run failed for a known reason, which is the message."""


@dataclass(frozen=True)
class Job:
    """A run that a worker is asked to do."""

    store: Store
    run: PlannedRun
    command: tuple[str, ...]  # the command line of the sweep
    retries: int  # how often the run is started again if its process dies
    stop: Path  # a file; the run stops once it exists
    train: "Train"  # trains a job's config in its folder; a function that workers can import


Train: TypeAlias = Callable[[Job, Origin], None]


def say(text: str) -> None:
    """Print a line of progress; where the output was closed, the sweep goes on."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def work(job: Job) -> Record:
    """Do a job, unless it is done or another process works on it; returns the run's record."""
    key = job.run.key
    with warnings.catch_warnings(), job.store.claim(key.identity) as mine:
        warnings.simplefilter("ignore", ResultWarning)  # the driver has given it
        if not mine:
            return Record(job.store.folder_of(key), {"status": RUNNING_ELSEWHERE})
        known = job.store.find(key)
        if known and known.is_result:
            return known
        attempt = 1
        if known and known.status == "running" and known.attempt > job.retries:
            reason = f"its process died {known.attempt} times; {OUTPUT} may say why."
            return job.store.mark(known, "failed", reason)
        if known and known.status in ("running", "failed"):
            attempt = known.attempt + 1
        if known and known.status == "running":
            job.store.mark(known, "failed", "its process died.")
        if known:
            job.store.archive(known)
        own = Record(job.store.folder_of(key), {"status": "interrupted"})
        if job.stop.exists():
            return own
        if own.folder.exists():  # it holds the result of another run, moved or edited by hand
            job.store.archive(own)
        return _train(job, attempt)


def _train(job: Job, attempt: int) -> Record:
    """Train the run of a claimed job in a new folder."""
    key = job.run.key
    facts = {
        "sweep": job.store.name,
        "group": key.group,
        "axes": job.run.labels,
        "per_seed": list(job.run.per_seed),
        "place": job.run.place,
        "identity": key.identity,
        "data_sha256": job.run.data_sha256,
        "command": list(job.command),
        "attempt": attempt,
    }
    folder = job.store.begin(key, facts)
    status, reason = "failed", "it ended without a result"
    with _output_to(folder / OUTPUT):
        try:
            job.train(job, Origin(facts, folder))
        except RunFailed as error:
            reason = str(error)
        except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
            status, reason = "interrupted", "interrupted"
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
    record = Record(folder, read_result(folder))
    # Either the run ended before its recorder wrote the outcome, or the recorder knows only the
    # error's message.
    if record.status == "running" or record.status == status == "failed":
        return job.store.mark(record, status, reason)
    return record


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
