"""The main loop of a sweep: hand runs to workers and collect their outcomes."""

import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool, PoolError, WorkerDied
from gnn_depth.sweeps.progress import SweepProgress
from gnn_depth.sweeps.store import CLAIMS, Record, RunKey, Store
from gnn_depth.sweeps.worker import ELSEWHERE, Job, Train, work

LOOK_SECONDS = 2.0  # between looks at runs that other processes work on
GRACE_SECONDS = 20.0  # for a run to stop by itself and save what it has


def carry_out(plan: Plan, pool: Pool, train: Train, retries: int, deadline: float) -> "Sweep":
    """Run all unfinished runs of a plan, whose folder exists, and show the progress.

    The sweep that has ended is returned. No run starts after the deadline, a reading of the
    monotonic clock.
    """
    done = {identity for identity, record in plan.store.records().items() if record.is_result}
    there = Store(plan.store.root.absolute(), plan.store.name)
    # Once this file exists, this sweep's runs stop, on any machine.
    stop = there.folder / CLAIMS / f"stop-{uuid.uuid4().hex}"
    command = (Path(sys.argv[0]).name, *sys.argv[1:])

    def job_of(run: PlannedRun) -> Job:
        return Job(there, run, command, retries, str(stop), train)

    jobs = [job_of(run) for run in plan.runs if run.key.identity not in done]
    finished = len(plan.runs) - len(jobs)
    try:
        with SweepProgress(plan.size, finished, pool, plan.metric) as progress:
            return Sweep(plan, pool, progress, deadline, job_of).run(jobs)
    finally:
        stop.unlink(missing_ok=True)


class Sweep:
    """A running sweep; the mean curves of a group are written once all its runs are done."""

    def __init__(
        self,
        plan: Plan,
        pool: Pool,
        progress: SweepProgress,
        deadline: float = float("inf"),
        job_of: Callable[[PlannedRun], Job] | None = None,
    ) -> None:
        self.plan = plan
        self.pool = pool
        self.progress = progress
        self.deadline = deadline
        self.job_of = job_of  # for runs that the plan adds later
        self.outcomes: dict[str, Record] = {}  # by identity; runs that were not started have none
        self.interrupted: KeyboardInterrupt | None = None  # what ended the sweep early
        self._waiting: deque[Job] = deque()
        self._running: dict[Future[Record], Job] = {}
        self._elsewhere: list[Job] = []
        self._said_elsewhere: set[str] = set()
        self._looked = 0.0
        self._deaths: Counter[str] = Counter()

    def run(self, jobs: Iterable[Job]) -> "Sweep":
        """Run all jobs; returns when all are done, when interrupted, or when the time is up."""
        self._waiting.extend(jobs)
        try:
            while self._step():
                pass
        except KeyboardInterrupt as interrupt:
            self.interrupted = interrupt
            self._stop()
        return self

    def _step(self) -> bool:
        """Start as many runs as there is room for and take finished ones; False at the end."""
        now = time.monotonic()
        in_time = now < self.deadline
        if not self._waiting and now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()
        while in_time and len(self._running) < self.pool.workers and self._is_any_waiting():
            job = self._waiting.popleft()
            self.progress.start(job.run.key.label)
            self._running[self.pool.submit(work, job)] = job
        if self._running:
            ready, _ = wait(self._running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ready:
                self._take(self._running.pop(future), future)
        elif self._elsewhere and in_time:
            time.sleep(LOOK_SECONDS)
        if self._running:
            return True
        return in_time and (self._is_any_waiting() or bool(self._elsewhere))

    def _is_any_waiting(self) -> bool:
        """True if a run waits for a worker; where none does, the plan is asked for more."""
        if not self._waiting and self.job_of is not None:
            for run in self.plan.next_runs(self.outcomes, self.progress.print):
                self._waiting.append(self.job_of(run))
        return bool(self._waiting)

    def _take(self, job: Job, future: "Future[Record]") -> None:
        try:
            outcome = future.result()
        except WorkerDied as death:
            self._retry(job, str(death), died=True)
            return
        except PoolError:
            raise
        except Exception as error:  # such as a full disk; other runs may have more luck
            self._fail(job, f"{type(error).__name__}: {error}")
            return
        if outcome.status == ELSEWHERE:
            self._leave(job)
        elif outcome.status == "interrupted":
            # Not by this sweep: by a signal to its worker, or because it called exit.
            self._retry(job, f"it was stopped: {outcome.reason}")
        else:
            self._end(job, outcome)

    def _retry(self, job: Job, reason: str, died: bool = False) -> None:
        """Restart a run that has stopped; attempts on disk count deaths in earlier sweeps too."""
        self._deaths[job.run.key.identity] += 1
        deaths = self._deaths[job.run.key.identity]
        if deaths > job.retries + 1:
            self._fail(job, reason)
            return
        # After one death too many, the next worker only marks the run as failed.
        goes_on = not died or deaths <= job.retries
        self.progress.retry(job.run.key.label, reason, goes_on)
        self._waiting.appendleft(job)

    def _leave(self, job: Job) -> None:
        """Leave a run to the other process that works on it, and look later whether that died."""
        self.progress.retry(job.run.key.label, "")
        if job.run.key.identity not in self._said_elsewhere:
            self._said_elsewhere.add(job.run.key.identity)
            self.progress.print(f"{job.run.key.label} is being run by another process")
        self._elsewhere.append(job)

    def _fail(self, job: Job, reason: str) -> None:
        folder = self.plan.store.folder_of(job.run.key)
        self._end(job, Record(folder, {"status": "failed", "reason": reason}))

    def _end(self, job: Job, outcome: Record) -> None:
        self.outcomes[job.run.key.identity] = outcome
        if not self.progress.metric:
            self.progress.metric = outcome.main_metric  # the first run's task decides
        value = outcome.value(self.progress.metric) if self.progress.metric else None
        self.progress.end(job.run.key.label, outcome.status, value, outcome.seconds)
        if outcome.status == "failed":
            self.progress.print(f"{job.run.key.label} failed: {outcome.reason}")
        self._summarise(job.run.key)

    def _summarise(self, ended: RunKey) -> None:
        """Write the mean curves of a run's group if all its runs are done."""
        store = self.plan.store
        records = [store.find(run.key) for run in self.plan.runs if run.key.group == ended.group]
        folders = [record.folder for record in records if record and record.is_result]
        if len(folders) < len(records) or len(records) < 2:
            return
        from gnn_depth.sweeps.summary import write_summary  # pandas: the start need not wait for it

        try:
            write_summary(store.folder, store.folder_of(ended).parent.name, folders)
        except Exception as error:  # the runs themselves are safe, and others are under way
            self.progress.print(f"no summary of {ended.group}: {error}")

    def _stop(self) -> None:
        """Let running runs save what they have, and mark those that were killed as interrupted."""
        self.progress.print(
            f"stopping: runs have up to {GRACE_SECONDS:.0f} s to save; a second signal stops them "
            "at once."
        )
        for job in self._running.values():
            Path(job.stop).touch()
        try:
            self.pool.stop(GRACE_SECONDS)
        except KeyboardInterrupt:
            self.pool.stop(0)
        for future, job in self._running.items():
            try:
                self._settle(future, job)
            except OSError as error:
                # Such as a full disk; a run still marked as running counts as died.
                self.progress.print(f"{job.run.key.label} cannot be marked as interrupted: {error}")

    def _settle(self, future: "Future[Record]", job: Job) -> None:
        if future.done() and not future.cancelled() and future.exception() is None:
            outcome = future.result()
            if outcome.status != ELSEWHERE:
                self._end(job, outcome)
            return
        with self.plan.store.claim(job.run.key.identity) as mine:
            record = self.plan.store.find(job.run.key) if mine else None
            if record and record.status == "running":
                self.plan.store.mark(record, "interrupted", "interrupted")
