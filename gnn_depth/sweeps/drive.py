"""The loop of a sweep: hand runs to workers, take what comes of them, lose nothing."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gnn_depth.sweeps.engines import Engine, EngineError, WorkerDied
from gnn_depth.sweeps.live import Live
from gnn_depth.sweeps.store import CLAIMS, Store
from gnn_depth.sweeps.task import ELSEWHERE, Outcome, Task

LOOK_SECONDS = 2.0  # between looks at runs that other processes work on
GRACE_SECONDS = 20.0  # for a run to stop by itself and save what it has


@dataclass
class Tally:
    """What has come of a sweep so far.

    Attributes:
        outcomes: By identity; runs that were not started have none.
        interrupted: What stopped it before its end.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    interrupted: KeyboardInterrupt | None = None


class Sweep:
    """A sweep under way.

    Args:
        work: What a worker does with a task.
        engine: The workers.
        store: Where results are kept.
        live: What is shown meanwhile.
        metric: What runs are compared by.
        deadline: No run starts after this reading of the monotonic clock.
        ended: Called with every task that has an outcome.
    """

    def __init__(
        self,
        work: Callable[[Task], Outcome],
        engine: Engine,
        store: Store,
        live: Live,
        metric: str,
        deadline: float = float("inf"),
        ended: Callable[[Task], None] = lambda task: None,
    ) -> None:
        self.work, self.engine, self.store, self.live = work, engine, store, live
        self.metric, self.deadline, self.ended = metric, deadline, ended
        self.tally = Tally()
        self._waiting: deque[Task] = deque()
        self._running: dict[Future[Outcome], Task] = {}
        self._elsewhere: list[Task] = []
        self._looked = 0.0
        self._deaths: Counter[str] = Counter()
        self._left: set[str] = set()

    def run(self, tasks: Iterable[Task]) -> Tally:
        """Run every task that is not done; returns when all are, when it is interrupted or when the time is up."""
        self._waiting.extend(tasks)
        try:
            while self._step():
                pass
        except KeyboardInterrupt as interrupt:
            self.tally.interrupted = interrupt
            self._stop()
        return self.tally

    def _step(self) -> bool:
        """Start what there is room for and take what is ready; False when nothing is left to do."""
        now = time.monotonic()
        in_time = now < self.deadline
        if not self._waiting and now - self._looked > LOOK_SECONDS:
            self._looked = now
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()
        while in_time and self._waiting and len(self._running) < self.engine.workers:
            task = self._waiting.popleft()
            self.live.start(task.place.label)
            self._running[self.engine.submit(self.work, task)] = task
        if self._running:
            ready, _ = wait(self._running, timeout=LOOK_SECONDS, return_when=FIRST_COMPLETED)
            for future in ready:
                self._take(self._running.pop(future), future)
        elif self._elsewhere and in_time:
            time.sleep(LOOK_SECONDS)
        return bool(self._running or (in_time and (self._waiting or self._elsewhere)))

    def _take(self, task: Task, future: "Future[Outcome]") -> None:
        try:
            outcome = future.result()
        except WorkerDied as death:
            self._retry(task, str(death))
            return
        except EngineError:
            raise
        except Exception as error:  # of a full disk, say; other runs may have more luck
            self._end(task, Outcome("failed", reason=f"{type(error).__name__}: {error}"))
            return
        if outcome.status == ELSEWHERE:
            self._leave(task)
        elif outcome.status == "interrupted":  # not by this sweep: by a signal to its worker, or it called exit
            self._retry(task, f"it was stopped: {outcome.reason}")
        else:
            self._end(task, outcome)

    def _retry(self, task: Task, reason: str) -> None:
        """Start a run again whose worker died. Its attempts are counted on disk; here those that died before that."""
        self._deaths[task.place.identity] += 1
        if self._deaths[task.place.identity] > task.retries + 1:
            self._end(task, Outcome("failed", reason=reason))
            return
        self.live.retry(task.place.label, reason)
        self._waiting.appendleft(task)

    def _leave(self, task: Task) -> None:
        """Leave a run to the process that works on it, and look again later: it may die."""
        self.live.retry(task.place.label, "")
        if task.place.identity not in self._left:
            self._left.add(task.place.identity)
            self.live.say(f"{task.place.label} is being run by another process")
        self._elsewhere.append(task)

    def _end(self, task: Task, outcome: Outcome) -> None:
        self.tally.outcomes[task.place.identity] = outcome
        self.live.end(task.place.label, outcome.status, outcome.value(self.metric), outcome.seconds)
        if outcome.status == "failed":
            self.live.say(f"{task.place.label} failed: {outcome.reason}")
        self.ended(task)

    def _stop(self) -> None:
        """Let what runs save itself, and note of the rest that it was interrupted."""
        self.live.say(f"stopping: runs save what they have, for up to {GRACE_SECONDS:.0f} s; again to stop at once.")
        for task in self._running.values():
            Path(task.stop).touch()
        try:
            self.engine.stop(GRACE_SECONDS)
        except KeyboardInterrupt:
            self.engine.stop(0)
        for future, task in self._running.items():
            try:
                self._settle(future, task)
            except OSError as error:  # of a full disk: what is still marked as running counts as died
                self.live.say(f"{task.place.label} cannot be marked as interrupted: {error}")

    def _settle(self, future: "Future[Outcome]", task: Task) -> None:
        if future.done() and not future.cancelled() and future.exception() is None:
            outcome = future.result()
            if outcome.status != ELSEWHERE:
                self._end(task, outcome)
            return
        with self.store.claim(task.place.identity) as mine:
            record = self.store.find(task.place) if mine else None
            if record and record.status == "running":
                self.store.mark(record, "interrupted", "interrupted")


@contextmanager
def stop_file(store: Store, name: str) -> Iterator[Path]:
    """The file whose presence stops this sweep's runs, wherever they run; taken away at the end."""
    path = store.folder / CLAIMS / f"stop-{name}"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
