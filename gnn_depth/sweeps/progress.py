"""The progress of a sweep: a line for each run that has ended, and a bar on a terminal."""

import math
import sys
from collections import Counter
from contextlib import AbstractContextManager
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from gnn_depth.runs import RESULTS, lower_is_better
from gnn_depth.sweeps.pool import Pool

TROUBLE = ("diverged", "failed", "interrupted")


def duration(seconds: float) -> str:
    """An estimated time, no more precise than an estimate is: ``40 s``, ``2 h 10 min``."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} d {hours % 24} h"


class _Screen(Console):
    """A console that raises an error if its output was closed; rich would end the process."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class SweepProgress(AbstractContextManager["SweepProgress"]):
    """Shows a sweep's progress on standard error; a context manager.

    By the metric the best of the finished runs is chosen: the lowest for a loss or an error, the
    highest for anything else.
    """

    def __init__(
        self,
        total: int,
        done: int,
        pool: Pool,
        metric: str | None = None,
        console: Console | None = None,
    ) -> None:
        self.total = total
        self.over = done
        self.metric = metric
        self.running: set[str] = set()
        self.ended: Counter[str] = Counter()
        self.best: float | None = None
        self._pool = pool
        # Of runs that tell how long a run takes; a failed one may have failed at once.
        self._seconds: list[float] = []
        self._console = console or _Screen(stderr=True)
        # FORCE_COLOR makes rich treat a log file as a terminal: colours are fine, but lines cannot
        # be redrawn.
        self._draws = self._console.is_interactive and self._console.file.isatty()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            refresh_per_second=2,
            # What others print to a terminal goes above the bar; what they print to a file stays
            # there.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
            disable=not self._draws,
        )
        self._task = self._bar.add_task(self._state(), total=total, completed=done)

    def __enter__(self) -> "SweepProgress":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def start(self, label: str) -> None:
        """A run has started."""
        self.running.add(label)
        self._update()

    def end(self, label: str, status: str, value: float | None, seconds: float) -> None:
        """A run has ended with this value of the metric: finished, diverged, failed or
        interrupted."""
        self.running.discard(label)
        self.over += 1
        self.ended[status] += 1
        if status in RESULTS:
            self._seconds.append(seconds)
        shown = status
        if value is not None:
            shown += f" {value:.3f}" if abs(value) < 1e4 else f" {value:.2e}"
            # What a diverged run reached before it diverged is no result to compare with.
            if status == "finished" and math.isfinite(value) and self._is_better(value):
                self.best = value
                shown += " (best so far)"
        self._update()
        self.print(
            f"[{self.over}/{self.total}] {label}: {shown} in {seconds:.1f} s; {self._state()}"
        )

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return True
        if self.metric and lower_is_better(self.metric):
            return value < self.best
        return value > self.best

    def retry(self, label: str, reason: str, goes_on: bool = True) -> None:
        """A run has stopped, and a worker will take it up again; printed if there is a reason.

        With ``goes_on`` false the worker only marks it as failed.
        """
        self.running.discard(label)
        self._update()
        if not reason:
            return
        if goes_on:
            self.print(f"{label} will be started again: {reason}")
        else:
            self.print(f"{label} has stopped: {reason}")

    def print(self, text: str) -> None:
        """Print permanent text, above the bar if there is one."""
        try:
            # Lines of a log are not broken at 80 columns.
            self._console.print(Text(text), soft_wrap=not self._draws)
        except OSError:  # a closed pipe or terminal, or a full disk: the sweep goes on unseen
            self._console.quiet = True

    def _state(self) -> str:
        """Counts of runs, and the time left if each takes the mean time of those before it."""
        parts = [f"{self.ended[status]} {status}" for status in TROUBLE if self.ended[status]]
        parts.append(f"{len(self.running)} running")
        left = self.total - self.over
        if left and self._seconds:
            mean = sum(self._seconds) / len(self._seconds)
            parts.append(f"about {duration(mean * max(1, left / self._pool.workers))} left")
        elif left:
            parts.append("time left ?")
        return ", ".join(parts)

    def _update(self) -> None:
        self._bar.update(self._task, completed=self.over, description=self._state())
