"""One run of a sweep: claim it, train it in its folder, and record its outcome."""

import contextlib
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from gnn_depth.runs import Origin, read_result
from gnn_depth.signals import raise_on_signal
from gnn_depth.sweeps.store import PlannedRun, Record, ResultWarning, Store

OUTPUT = "output.txt"
RUNNING_ELSEWHERE = "running elsewhere"  # the status of a run that another process works on
RETRIES = 2  # of a run whose process died
# Trains a run in its folder; a function that workers can import.
Train: TypeAlias = Callable[[PlannedRun, Origin], None]


class RunFailed(Exception):
    """A run failed for a known reason, which is the message."""


def work(store: Store, run: PlannedRun, train: Train) -> Record:
    """Do a run, unless it is done or another process works on it; returns its record."""
    folder = store.folder_of(run)
    with warnings.catch_warnings(), store.claim(run.identity) as mine:
        warnings.simplefilter("ignore", ResultWarning)  # the driver has given it
        if not mine:
            return Record(folder, {"status": RUNNING_ELSEWHERE})
        known = store.records(run.identity).get(run.identity)
        attempt = 1
        if known:
            if known.is_result:
                return known
            known_attempt = known.result.get("attempt", 1)
            has_died = known.status == "running"
            if has_died and known_attempt > RETRIES:
                reason = f"its process died {known_attempt} times; {OUTPUT} may say why."
                return store.mark(known, "failed", reason)
            if has_died:
                store.mark(known, "failed", "its process died.")
            if known.status != "interrupted":
                attempt = known_attempt + 1
            store.archive(known.folder)
        if folder.exists():  # it holds the result of another run, or one that is damaged
            store.archive(folder)
        status, reason = "failed", "it ended without a result"
        with raise_on_signal(), _output_to(folder / OUTPUT):
            try:
                # A signal before this leaves no run, and one after it an interrupted one.
                train(run, store.begin(run, attempt))
            except RunFailed as error:
                reason = str(error)
            except (KeyboardInterrupt, SystemExit):  # Lightning turns the first into the second
                status = reason = "interrupted"
            except Exception as error:
                traceback.print_exc()
                reason = f"{type(error).__name__}: {error}"
        record = Record(folder, read_result(folder))
        # Either the run ended before its recorder wrote the outcome, or the recorder knows only the
        # error's message.
        if record.status == "running" or record.status == status == "failed":
            return store.mark(record, status, reason)
        return record


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send everything that this process prints, compiled code included, to a file of a new
    folder."""
    path.parent.mkdir(parents=True)
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
