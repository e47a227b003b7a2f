"""The main loop of a sweep: hand runs to workers and collect their outcomes."""

import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path

from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.pool import Pool, PoolError, WorkerDied
from gnn_depth.sweeps.progress import SweepProgress
from gnn_depth.sweeps.store import CLAIMS, Place, Record, Store
from gnn_depth.sweeps.worker import ELSEWHERE, Task, Train, work

LOOK_SECONDS = 2.0  # between looks at runs that other processes work on
GRACE_SECONDS = 20.0  # for a run to stop by itself and save what it has


def carry_out(
    plan: Plan, pool: Pool, train: Train, retries: int, deadline: float = float("inf")
) -> "Sweep":
    """Run all unfinished runs of a plan, whose folder exists, and show the progress; returns the
    sweep that has ended.

    No run starts after the deadline, a reading of the monotonic clock.
    """
    done = {identity for identity, record in plan.store.records().items() if record.is_result}
    there = Store(plan.store.root.absolute(), plan.store.name)
    stop = (
        there.folder / CLAIMS / f"stop-{uuid.uuid4().hex}"
    )  # once it exists, this sweep's runs stop, on any machine
    command = (Path(sys.argv[0]).name, *sys.argv[1:])
    left = [run for run in plan.runs if run.place.identity not in done]
    tasks = [Task(there, run, command, retries, str(stop), train) for run in left]
    try:
        with SweepProgress(
            len(plan.runs), len(plan.runs) - len(tasks), pool, plan.grid.metric
        ) as progress:
            return Sweep(plan, pool, progress, deadline).run(tasks)
    finally:
        stop.unlink(missing_ok=True)


class Sweep:
    """A running sweep; the mean curves of a group are written once all its runs are done."""

    def __init__(
        self, plan: Plan, pool: Pool, progress: SweepProgress, deadline: float = float("inf")
    ) -> None:
        self.plan = plan
        self.pool = pool
        self.progress = progress
        self.deadline = deadline
        self.outcomes: dict[str, Record] = {}  # by identity; runs that were not started have none
        self.interrupted: KeyboardInterrupt | None = None  # what ended the sweep early
        self._waiting: deque[Task] = deque()
        self._running: dict[Future[Record], Task] = {}
        self._elsewhere: list[Task] = []
        self._said_elsewhere: set[str] = set()
        self._looked = 0.0
        self._deaths: Counter[str] = Counter()

    def run(self, tasks: Iterable[Task]) -> "Sweep":
        """Run all tasks; returns when all are done, when interrupted, or when the time is up."""
        self._waiting.extend(tasks)
        try:
            while self._step():
                pass
        except KeyboardInterrupt as interrupt:
            self.interrupted = interrupt
            self._stop()
        return self

    def _step(self) -> bool:
        """Start as many runs as there is room for and take finished ones; False when nothing is
        left to do."""
        now = time.monotonic()
        in_time = now < self.deadline
        if not self._waiting and now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()
        while in_time and self._waiting and len(self._running) < self.pool.workers:
            task = self._waiting.popleft()
            self.progress.start(task.run.place.label)
            self._running[self.pool.submit(work, task)] = task
        if self._running:
            ready, _ = wait(self._running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ready:
                self._take(self._running.pop(future), future)
        elif self._elsewhere and in_time:
            time.sleep(LOOK_SECONDS)
        return bool(self._running or (in_time and (self._waiting or self._elsewhere)))

    def _take(self, task: Task, future: "Future[Record]") -> None:
        try:
            outcome = future.result()
        except WorkerDied as death:
            self._retry(task, str(death))
            return
        except PoolError:
            raise
        except Exception as error:  # such as a full disk; other runs may have more luck
            self._fail(task, f"{type(error).__name__}: {error}")
            return
        if outcome.status == ELSEWHERE:
            self._leave(task)
        elif (
            outcome.status == "interrupted"
        ):  # not by this sweep: by a signal to its worker, or because it called exit
            self._retry(task, f"it was stopped: {outcome.reason}")
        else:
            self._end(task, outcome)

    def _retry(self, task: Task, reason: str) -> None:
        """Restart a run whose worker died; attempts are counted on disk, so deaths in earlier
        sweeps count too."""
        self._deaths[task.run.place.identity] += 1
        if self._deaths[task.run.place.identity] > task.retries + 1:
            self._fail(task, reason)
            return
        self.progress.retry(task.run.place.label, reason)
        self._waiting.appendleft(task)

    def _leave(self, task: Task) -> None:
        """Leave a run to the other process that works on it, and check later whether that process
        died."""
        self.progress.retry(task.run.place.label, "")
        if task.run.place.identity not in self._said_elsewhere:
            self._said_elsewhere.add(task.run.place.identity)
            self.progress.print(f"{task.run.place.label} is being run by another process")
        self._elsewhere.append(task)

    def _fail(self, task: Task, reason: str) -> None:
        self._end(
            task,
            Record(self.plan.store.place(task.run.place), {"status": "failed", "reason": reason}),
        )

    def _end(self, task: Task, outcome: Record) -> None:
        self.outcomes[task.run.place.identity] = outcome
        self.progress.metric = (
            self.progress.metric or outcome.main_metric
        )  # the first run's task decides
        value = outcome.value(self.progress.metric) if self.progress.metric else None
        self.progress.end(task.run.place.label, outcome.status, value, outcome.seconds)
        if outcome.status == "failed":
            self.progress.print(f"{task.run.place.label} failed: {outcome.reason}")
        self._summarise(task.run.place)

    def _summarise(self, ended: Place) -> None:
        """Write the mean curves of a run's group if all its runs are done."""
        store = self.plan.store
        records = [
            store.find(run.place) for run in self.plan.runs if run.place.group == ended.group
        ]
        folders = [record.folder for record in records if record and record.is_result]
        if len(folders) < len(records) or len(records) < 2:
            return
        from gnn_depth.sweeps.summary import (
            write_summary,
        )  # pandas, which the start need not wait for

        try:
            write_summary(store.folder, store.place(ended).parent.name, folders)
        except Exception as error:  # the runs themselves are safe, and others are under way
            self.progress.print(f"no summary of {ended.group}: {error}")

    def _stop(self) -> None:
        """Let running runs save what they have, and mark those that were killed as interrupted."""
        self.progress.print(
            f"stopping: runs have up to {GRACE_SECONDS:.0f} s to save; a second signal stops them "
            "at once."
        )
        for task in self._running.values():
            Path(task.stop).touch()
        try:
            self.pool.stop(GRACE_SECONDS)
        except KeyboardInterrupt:
            self.pool.stop(0)
        for future, task in self._running.items():
            try:
                self._settle(future, task)
            except (
                OSError
            ) as error:  # such as a full disk; a run still marked as running counts as died
                self.progress.print(
                    f"{task.run.place.label} cannot be marked as interrupted: {error}"
                )

    def _settle(self, future: "Future[Record]", task: Task) -> None:
        if future.done() and not future.cancelled() and future.exception() is None:
            outcome = future.result()
            if outcome.status != ELSEWHERE:
                self._end(task, outcome)
            return
        with self.plan.store.claim(task.run.place.identity) as mine:
            record = self.plan.store.find(task.run.place) if mine else None
            if record and record.status == "running":
                self.plan.store.mark(record, "interrupted", "interrupted")
