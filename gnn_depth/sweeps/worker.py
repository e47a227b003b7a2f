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
from gnn_depth.signals import raise_on_signal
from gnn_depth.sweeps.plan import PlannedRun
from gnn_depth.sweeps.store import Record, ResultWarning, Store

OUTPUT = "output.txt"
RUNNING_ELSEWHERE = "running elsewhere"  # the status of a run that another process works on
RETRIES = 2  # of a run whose process died


class RunFailed(Exception):
    """A run failed for a known reason, which is the message."""


@dataclass(frozen=True)
class Job:
    """A run that a worker is asked to do."""

    store: Store
    run: PlannedRun
    train: "Train"  # trains a job's config in its folder; a function that workers can import


Train: TypeAlias = Callable[[Job, Origin], None]


def work(job: Job) -> Record:
    """Do a job, unless it is done or another process works on it; returns the run's record."""
    key, store = job.run.key, job.store
    folder = store.folder_of(key)
    with warnings.catch_warnings(), store.claim(key.identity) as mine:
        warnings.simplefilter("ignore", ResultWarning)  # the driver has given it
        if not mine:
            return Record(folder, {"status": RUNNING_ELSEWHERE})
        known = store.find(key)
        attempt = 1
        if known:
            if known.is_result:
                return known
            has_died = known.status == "running"
            if has_died and known.attempt > RETRIES:
                reason = f"its process died {known.attempt} times; {OUTPUT} may say why."
                return store.mark(known, "failed", reason)
            if has_died:
                store.mark(known, "failed", "its process died.")
            if known.status != "interrupted":
                attempt = known.attempt + 1
            store.archive(known.folder)
        if folder.exists():  # it holds the result of another run, or one that is damaged
            store.archive(folder)
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
        "attempt": attempt,
    }
    folder = job.store.begin(key, facts)
    status, reason = "failed", "it ended without a result"
    with raise_on_signal(), _output_to(folder / OUTPUT):
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
