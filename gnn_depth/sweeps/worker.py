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
from gnn_depth.sweeps.store import Place, Record, ResultWarning, Store

OUTPUT = "output.txt"
ELSEWHERE = "elsewhere"  # the status of a run that another process works on


class RunFailed(Exception):
    """A run failed for a known reason, which is the message."""


@dataclass(frozen=True)
class Task:
    """A run that a worker is asked to do."""

    store: Store
    run: PlannedRun
    command: tuple[str, ...]  # the command line of the sweep
    retries: int  # how often the run is started again if its process dies
    stop: str  # a file; the run stops once it exists
    train: "Train"  # trains a task's config in its folder; a function that workers can import


Train: TypeAlias = Callable[[Task, Origin], None]


def work(task: Task) -> Record:
    """Do a task, unless it is already done or another process works on it, and return what became
    of the run."""
    place = task.run.place
    with warnings.catch_warnings(), task.store.claim(place.identity) as mine:
        warnings.simplefilter("ignore", ResultWarning)  # the driver has given it
        return (
            _run(task, task.store, place)
            if mine
            else Record(task.store.place(place), {"status": ELSEWHERE})
        )


def _run(task: Task, store: Store, place: Place) -> Record:
    known, attempt = store.find(place), 1
    own = store.place(place)
    if known and known.is_result:
        return known
    if known:
        if known.status == "running" and known.attempt > task.retries:
            store.mark(
                known, "failed", f"its process died {known.attempt} times; {OUTPUT} may say why."
            )
            return _read(known.folder)
        attempt = known.attempt + 1 if known.status in ("running", "failed") else 1
        if known.status == "running":
            store.mark(known, "failed", "its process died.")
        store.archive(known)
    if Path(task.stop).exists():
        return Record(own, {"status": "interrupted"})
    if own.exists():  # it holds the result of another run, moved or edited by hand
        store.archive(Record(own, {}))
    facts = {
        "sweep": store.name,
        "group": place.group,
        "axes": task.run.labels,
        "identity": place.identity,
        "data_sha256": task.run.data_sha256,
        "command": list(task.command),
        "attempt": attempt,
    }
    folder = store.begin(place, facts)
    with _output_to(folder / OUTPUT):
        status, reason = _train(task, Origin(facts, folder))
    record = _read(folder)
    # Either the run ended before its recorder wrote the outcome, or the recorder knows only the
    # error's message.
    if record.status == "running" or record.status == status == "failed":
        store.mark(record, status, reason)
        record = _read(folder)
    return record


def _train(task: Task, origin: Origin) -> tuple[str, str]:
    """Train, and return status and reason in case the run has recorded neither."""
    try:
        task.train(task, origin)
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
