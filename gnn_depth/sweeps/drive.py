"""The main loop of a sweep: hand runs to workers and collect their outcomes."""

import sys
import time
import uuid
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool, PoolError
from gnn_depth.sweeps.store import CLAIMS, Record, Store
from gnn_depth.sweeps.worker import RUNNING_ELSEWHERE, Job, Train, say, work

LOOK_SECONDS = 2.0  # between looks at runs that other processes work on
GRACE_SECONDS = 20.0  # for a run to stop by itself and save what it has


class Sweep:
    """A running sweep. No run starts after the deadline, a reading of the monotonic clock."""

    def __init__(
        self, plan: Plan, pool: Pool, train: Train, retries: int, deadline: float = float("inf")
    ) -> None:
        self.plan = plan
        self.pool = pool
        self.train = train
        self.retries = retries
        self.deadline = deadline
        self.store = Store(plan.store.root.absolute(), plan.store.name)
        # Once this file exists, this sweep's runs stop, on any machine.
        self.stop_file = self.store.folder / CLAIMS / f"stop-{uuid.uuid4().hex}"
        # The records of runs that are done, by identity.
        known = self.store.records().items()
        self.records = {identity: record for identity, record in known if record.is_result}
        self.failed = 0
        self.interrupted: KeyboardInterrupt | None = None  # what ended the sweep early
        self._waiting = deque(run for run in plan.runs if run.key.identity not in self.records)
        self._running: dict[Future[Record], PlannedRun] = {}
        self._elsewhere: list[PlannedRun] = []  # other processes run them
        self._seen_elsewhere: set[str] = set()
        self._looked = 0.0
        self._starts: Counter[str] = Counter()

    def run(self) -> None:
        """Run all runs; returns when all are done, when interrupted, or when the time is up."""
        try:
            while self._step():
                pass
        except KeyboardInterrupt as interrupt:
            self.interrupted = interrupt
            self._stop()
        finally:
            self.stop_file.unlink(missing_ok=True)

    def _step(self) -> bool:
        """Start as many runs as there is room for and take finished ones; False at the end."""
        in_time = time.monotonic() < self.deadline
        while in_time and len(self._running) < self.pool.workers and self._is_any_waiting():
            run = self._waiting.popleft()
            self._starts[run.key.identity] += 1
            command = (Path(sys.argv[0]).name, *sys.argv[1:])
            job = Job(self.store, run, command, self.retries, self.stop_file, self.train)
            self._running[self.pool.submit(work, job)] = run
        if self._running:
            ended, _ = wait(self._running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ended:
                self._take(self._running.pop(future), future)
            return True
        if in_time and self._elsewhere:
            time.sleep(LOOK_SECONDS)
        return in_time and bool(self._waiting or self._elsewhere)

    def _is_any_waiting(self) -> bool:
        """True if a run waits for a worker; where none does, the plan is asked for more."""
        if not self._waiting:
            self._waiting.extend(self.plan.next_runs(self.records))
        now = time.monotonic()
        if not self._waiting and now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()
        return bool(self._waiting)

    def _take(self, run: PlannedRun, future: "Future[Record]") -> None:
        identity = run.key.identity
        status = "failed"
        try:
            record = future.result()
        except PoolError:
            raise
        except Exception as error:  # such as a full disk; other runs may have more luck
            if isinstance(error, BrokenProcessPool):
                status = "died"
            result = {"status": status, "reason": f"{type(error).__name__}: {error}"}
            record = Record(self.store.folder_of(run.key), result)
        if record.status == RUNNING_ELSEWHERE:
            if identity not in self._seen_elsewhere:
                say(f"{run.key.label} is being run by another process")
            self._seen_elsewhere.add(identity)
            self._elsewhere.append(run)  # looked at later: the other process may die
            self._starts[identity] -= 1
            return
        # A signal to its worker or a call of exit interrupts a run. After one death too many, the
        # next worker only marks it as failed.
        if record.status in ("died", "interrupted") and self._starts[identity] <= self.retries + 1:
            say(f"{run.key.label} is started again: {record.reason}")
            self._waiting.appendleft(run)
            return
        self.records[identity] = record
        self.failed += not record.is_result
        to_come = len(self._waiting) + len(self._running) + len(self._elsewhere)
        count = f"[{len(self.plan.runs) - to_come}/{self.plan.size}]"
        reason = f" ({record.reason})" if record.reason else ""
        say(f"{count} {run.key.label}: {record.status} in {record.seconds:.1f} s{reason}")

    def _stop(self) -> None:
        """Let running runs save what they have, and mark those that were killed as interrupted."""
        say(
            f"stopping: runs have up to {GRACE_SECONDS:.0f} s to save; a second signal stops them "
            "at once."
        )
        self.stop_file.touch()
        try:
            self.pool.stop(GRACE_SECONDS)
        except KeyboardInterrupt:
            self.pool.stop(0)
        for run in self._running.values():
            try:
                with self.store.claim(run.key.identity) as mine:
                    record = self.store.find(run.key) if mine else None
                    if record and record.status == "running":
                        self.store.mark(record, "interrupted", "interrupted")
            except OSError as error:
                # Such as a full disk; a run still marked as running counts as died.
                say(f"{run.key.label} cannot be marked as interrupted: {error}")
