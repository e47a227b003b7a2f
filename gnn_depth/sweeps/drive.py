"""The main loop of a sweep: hand runs to workers and collect their outcomes."""

import sys
import time
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool

from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.pool import Pool
from gnn_depth.sweeps.store import PlannedRun, Record, Store
from gnn_depth.sweeps.worker import RETRIES, RUNNING_ELSEWHERE, Train, work

LOOK_SECONDS = 2.0  # between looks at runs that other processes work on
GRACE_SECONDS = 20.0  # for a run that is told to stop to save what it has


class Sweep:
    """A running sweep."""

    def __init__(self, plan: Plan, pool: Pool, train: Train) -> None:
        self.plan = plan
        self.pool = pool
        self.train = train
        self.store = Store(plan.store.root.absolute(), plan.store.name)
        # The records of runs that are done, by identity.
        known = self.store.records().items()
        self.records = {identity: record for identity, record in known if record.is_result}
        self.failed = 0
        self.interrupted: KeyboardInterrupt | None = None  # what ended the sweep early
        self._waiting = deque(run for run in plan.runs if run.identity not in self.records)
        self._running: dict[Future[Record], PlannedRun] = {}
        self._elsewhere: list[PlannedRun] = []  # other processes run them
        self._starts: Counter[str] = Counter()

    def run(self) -> None:
        """Run all runs; returns when all are done, or when interrupted."""
        try:
            while self._start_runs() or self._elsewhere:
                ended, _ = wait(self._running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in ended:
                    self._take(self._running.pop(future), future)
                if not self._running and self._elsewhere:
                    time.sleep(LOOK_SECONDS)
                    self._look_again()
        except KeyboardInterrupt as interrupt:
            self.interrupted = interrupt
            say(f"stopping: runs have up to {GRACE_SECONDS:.0f} s to save what they have.")
            self.pool.stop(GRACE_SECONDS)

    def _start_runs(self) -> bool:
        """Start as many runs as there is room for; False if none is running."""
        while len(self._running) < self.pool.workers:
            if not self._waiting:
                self._waiting.extend(self.plan.next_runs(self.records))
            if not self._waiting:
                break
            run = self._waiting.popleft()
            self._running[self.pool.submit(work, self.store, run, self.train)] = run
        return bool(self._running)

    def _look_again(self) -> None:
        """Offer the runs of other processes to the workers: their process may have died."""
        self._waiting += self._elsewhere
        self._elsewhere = []

    def _take(self, run: PlannedRun, future: "Future[Record]") -> None:
        identity = run.identity
        try:
            record = future.result()
        except CancelledError:
            raise self.pool.lost from None
        except Exception as error:  # such as a full disk; other runs may have more luck
            status = "died" if isinstance(error, BrokenProcessPool) else "failed"
            result = {"status": status, "reason": f"{type(error).__name__}: {error}"}
            record = Record(self.store.folder_of(run), result)
        if record.status == RUNNING_ELSEWHERE:
            self._elsewhere.append(run)
            return
        reason = record.result.get("reason", "")
        self._starts[identity] += 1
        # A signal to its worker or a call of exit interrupts a run. After one death too many, the
        # next worker only marks it as failed.
        if record.status in ("died", "interrupted") and self._starts[identity] <= RETRIES + 1:
            say(f"{run.label} is started again: {reason}")
            self._waiting.appendleft(run)
            return
        self.records[identity] = record
        self.failed += not record.is_result
        self._look_again()
        done = sum(run.identity in self.records for run in self.plan.runs)
        count = f"[{done}/{self.plan.size}]"
        seconds = record.result.get("seconds", 0.0)
        say(f"{count} {run.label}: {record.status} in {seconds:.1f} s {reason}")


def say(text: str) -> None:
    """Print a line of progress."""
    print(text, file=sys.stderr)
