"""What a sweep shows while it runs: how far it is, how long it will take, the best run so far."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import NoReturn

from rich.console import Console, Group
from rich.live import Live as Drawing
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

MEASURED = ("finished", "diverged")  # runs that say how long a run takes; a failed one may have failed at once
TROUBLE = ("diverged", "failed", "interrupted")
BAR_COLUMNS = 40


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        total: Number of its runs.
        before: Number of those that were done before it started.
        workers: Number of runs at a time.
        metric: What the best run is the best in: the lowest of a loss, the highest of anything else.
        running: When each run started, by its label.
        ended: Number of runs that ended, by status.
        seconds: Time that all measured runs took.
        best: Label and value of the best run so far.
    """

    total: int
    before: int
    workers: int
    metric: str
    running: Mapping[str, float] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    best: tuple[str, float] | None = None

    def start(self, label: str, now: float) -> "Progress":
        """A run has started."""
        return replace(self, running={**self.running, label: now})

    def end(self, label: str, status: str, value: float | None, seconds: float) -> "Progress":
        """A run has ended, with this value of the metric."""
        return replace(
            self.retry(label),
            ended={**self.ended, status: self.ended.get(status, 0) + 1},
            seconds=self.seconds + (seconds if status in MEASURED else 0.0),
            best=(label, value) if value is not None and self._better(status, value) else self.best,
        )

    def retry(self, label: str) -> "Progress":
        """A run is no longer running and waits again."""
        return replace(self, running={other: since for other, since in self.running.items() if other != label})

    def _better(self, status: str, value: float) -> bool:
        if status not in MEASURED or not math.isfinite(value):
            return False
        sign = -1 if "loss" in self.metric else 1
        return self.best is None or sign * value > sign * self.best[1]

    @property
    def over(self) -> int:
        """Number of runs that nothing more is to be done for."""
        return self.before + sum(self.ended.values())

    def seconds_left(self, now: float) -> float | None:
        r"""Time until the last run ends; None before any run of this sweep has told how long one takes.

        .. math:: \max\Big(\tfrac1W \sum_i r_i, \; \max_i r_i\Big)

        for W workers, where r_i is what a run still needs of the mean duration: all of it where it waits, and nothing
        where it has run for longer.
        """
        waiting = self.total - self.over - len(self.running)
        measured = sum(self.ended.get(status, 0) for status in MEASURED)
        if waiting + len(self.running) <= 0:
            return 0.0
        if not measured:
            return None
        mean = self.seconds / measured
        needs = [max(0.0, mean - (now - since)) for since in self.running.values()] + [mean] * max(0, waiting)
        return max(sum(needs) / self.workers, *needs)

    def left(self, now: float) -> str:
        """The time left, in words."""
        seconds = self.seconds_left(now)
        return "time left ?" if seconds is None else f"about {duration(seconds)} left" if self.over < self.total else ""

    def counts(self) -> str:
        """How many runs are running or went wrong."""
        wrong = [f"{self.ended[status]} {status}" for status in TROUBLE if self.ended.get(status)]
        return ", ".join([*wrong, f"{len(self.running)} running"])

    def line(self, label: str, status: str, value: float | None, seconds: float, now: float) -> str:
        """What is said of a run that has just ended, and of the others."""
        said = status if value is None else f"{status} {number(value)}"
        best = " (best so far)" if self.best == (label, value) else ""
        rest = ", ".join(part for part in (self.counts(), self.left(now)) if part)
        return f"[{self.over}/{self.total}] {label}: {said}{best} in {seconds:.1f} s; {rest}"


def duration(seconds: float) -> str:
    """A time to the precision that an estimate has: ``40 s``, ``4 min``, ``2 h 10 min``, ``3 d 4 h``."""
    minutes = round(seconds / 60)
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def clock(seconds: float) -> str:
    """A time to the second: ``0:07``, ``12:34``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def number(value: float) -> str:
    """A metric: accuracies and losses to three decimals, what is too large for that by its exponent."""
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.2e}"


class _Screen(Console):
    """A console that says when whoever read it has gone; rich would end the process."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


class Live:
    """The live view of a sweep, a context manager: three lines that are drawn again and again on a terminal.

    Where the output is no terminal, a line for every run that has ended. All of it goes to standard error.

    Args:
        total: Number of runs of the sweep.
        done: Number of those that were done before it started.
        workers: Number of runs at a time.
        metric: What the best run is the best in.
        console: Where to draw; standard error by default.
        now: The clock, in seconds.
    """

    def __init__(
        self,
        total: int,
        done: int,
        workers: int,
        metric: str,
        console: Console | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.progress = Progress(total, done, workers, metric)
        self._console = console or _Screen(stderr=True)
        self._now = now
        self._since = now()
        self._drawing: Drawing | None = None

    def __enter__(self) -> "Live":
        self._since = self._now()
        # FORCE_COLOR makes a terminal of a log file; that may have colours, but cannot be drawn over.
        if self._console.is_interactive and self._console.file.isatty():
            self._drawing = Drawing(
                get_renderable=self._block,
                console=self._console,
                refresh_per_second=2,
                # What others print to a terminal goes above the view; what they print to a file stays there.
                redirect_stdout=sys.stdout.isatty(),
                redirect_stderr=sys.stderr.isatty(),
            )
            self._drawing.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawing is not None:
            self._drawing.stop()
            self._drawing = None

    def start(self, label: str) -> None:
        """A run has started."""
        self.progress = self.progress.start(label, self._now())

    def end(self, label: str, status: str, value: float | None, seconds: float) -> None:
        """A run has ended: finished, diverged, failed or interrupted, with this value of the metric."""
        self.progress = self.progress.end(label, status, value, seconds)
        if self._drawing is None:
            self.say(self.progress.line(label, status, value, seconds, self._now()))

    def retry(self, label: str, reason: str) -> None:
        """A run is no longer running and will be started again; without a reason nothing is said of it."""
        self.progress = self.progress.retry(label)
        if reason:
            self.say(f"{label} will be started again: {reason}")

    def say(self, text: str) -> None:
        """Print something that stays, above the view."""
        try:
            self._console.print(Text(text), soft_wrap=self._drawing is None)  # a log is not broken at 80 columns
        except OSError:  # a closed pipe or terminal, a full disk: the sweep goes on unseen
            self._console.quiet = True

    def _block(self) -> Group:
        """The view; drawn by a thread of rich, which finds a whole `progress` at any moment."""
        progress, now = self.progress, self._now()
        head = Table.grid(padding=(0, 1))
        head.add_column(max_width=BAR_COLUMNS)
        head.add_column(no_wrap=True)
        bar = ProgressBar(total=max(progress.total, 1), completed=progress.over)
        times = ", ".join(part for part in (clock(now - self._since), progress.left(now)) if part)
        head.add_row(bar, f"{progress.over}/{progress.total}  {times}")
        lines = [progress.counts()]
        if progress.running:
            label, since = min(progress.running.items(), key=lambda run: run[1])
            lines[0] += f", longest for {clock(now - since)}: {label}"
        if progress.best:
            lines.append(f"best {progress.metric} {number(progress.best[1])}: {progress.best[0]}")
        return Group(head, *(Text(" ".join(line.split()), no_wrap=True, overflow="ellipsis") for line in lines))
