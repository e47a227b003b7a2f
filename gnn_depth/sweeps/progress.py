"""The progress of a sweep: a live view on a terminal, a line for each run in a log."""

import math
import sys
from collections import Counter
from types import TracebackType
from typing import NoReturn

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from gnn_depth.runs import lower_is_better
from gnn_depth.sweeps.pool import Pool

MEASURED = ("finished", "diverged")  # runs that tell how long a run takes; a failed one may have failed at once
TROUBLE = ("diverged", "failed", "interrupted")


def duration(seconds: float) -> str:
    """An estimated time, no more precise than an estimate is: ``40 s``, ``4 min``, ``2 h 10 min``, ``3 d 4 h``."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def number(value: float) -> str:
    """A metric with three decimals, or with an exponent if it is large."""
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.2e}"


class _Screen(Console):
    """A console that raises an error if its output was closed; rich would end the process."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class SweepProgress:
    """Shows a sweep's progress on standard error; a context manager.

    By the metric the best run is chosen: the lowest for a loss or an error, the highest for anything else.
    """

    def __init__(
        self, total: int, done: int, pool: Pool, metric: str | None = None, console: Console | None = None
    ) -> None:
        self.total = total
        self.over = done
        self.metric = metric
        self.running: list[str] = []  # in the order of their starts
        self.ended: Counter[str] = Counter()
        self.best: tuple[str, float] | None = None
        self._pool = pool
        self._seconds: list[float] = []
        self._console = console or _Screen(stderr=True)
        # FORCE_COLOR makes rich treat a log file as a terminal: colours are fine, but lines cannot be redrawn.
        self._draws = self._console.is_interactive and self._console.file.isatty()
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=self._console)
        self._bar.add_task(self._left(), total=total, completed=done)
        self._lines = Text(no_wrap=True, overflow="ellipsis")
        self._live = Live(
            get_renderable=self._view,
            console=self._console,
            refresh_per_second=2,
            # What others print to a terminal goes above the view; what they print to a file stays there.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=sys.stderr.isatty(),
        )

    def _view(self) -> Group:
        return Group(self._bar.get_renderable(), self._lines)

    def __enter__(self) -> "SweepProgress":
        if self._draws:
            self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def start(self, label: str) -> None:
        """A run has started."""
        self.running.append(label)
        self._update()

    def end(self, label: str, status: str, value: float | None, seconds: float) -> None:
        """A run has ended with this value of the metric: finished, diverged, failed or interrupted."""
        self.running = [other for other in self.running if other != label]
        self.over += 1
        self.ended[status] += 1
        if status in MEASURED:
            self._seconds.append(seconds)
        if value is not None and self._is_best(status, value):
            self.best = (label, value)
        self._update()
        if not self._draws:
            shown = status if value is None else f"{status} {number(value)}"
            best = " (best so far)" if self.best == (label, value) else ""
            rest = ", ".join(part for part in (self._counts(), self._left()) if part)
            self.print(f"[{self.over}/{self.total}] {label}: {shown}{best} in {seconds:.1f} s; {rest}")

    def retry(self, label: str, reason: str) -> None:
        """A run has stopped and will be restarted; printed if there is a reason."""
        self.running = [other for other in self.running if other != label]
        self._update()
        if reason:
            self.print(f"{label} will be started again: {reason}")

    def print(self, text: str) -> None:
        """Print permanent text above the live view."""
        try:
            self._console.print(Text(text), soft_wrap=not self._draws)  # lines of a log are not broken at 80 columns
        except OSError:  # a closed pipe or terminal, or a full disk: the sweep goes on unseen
            self._console.quiet = True

    def _is_best(self, status: str, value: float) -> bool:
        if status not in MEASURED or not math.isfinite(value):
            return False
        sign = -1 if self.metric and lower_is_better(self.metric) else 1
        return self.best is None or sign * value > sign * self.best[1]

    def _counts(self) -> str:
        wrong = [f"{self.ended[status]} {status}" for status in TROUBLE if self.ended[status]]
        return ", ".join([*wrong, f"{len(self.running)} running"])

    def _left(self) -> str:
        """The time left, if all runs take the mean time of those that have ended."""
        left = self.total - self.over
        if not left:
            return ""
        if not self._seconds:
            return "time left ?"
        mean = sum(self._seconds) / len(self._seconds)
        return f"about {duration(mean * max(1, left / self._pool.workers))} left"

    def _update(self) -> None:
        self._bar.update(self._bar.task_ids[0], completed=self.over, description=self._left())
        lines = [self._counts()]
        if self.running:
            lines[0] += f", oldest: {self.running[0]}"
        if self.best:
            lines.append(f"best {self.metric} {number(self.best[1])}: {self.best[0]}")
        self._lines = Text("\n".join(" ".join(line.split()) for line in lines), no_wrap=True, overflow="ellipsis")
