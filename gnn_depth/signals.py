"""Signals that ask a process to stop: answered at once, or kept until it has saved what it has."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

# Of a cluster's time limit, of a terminal that was closed, of kill and of Ctrl-C.
NUMBERS = (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
# What is said in the end, by the exit code: 128 and the signal's number, as shells count.
SAID = {
    128 + signal.SIGINT: "interrupted.",
    128 + signal.SIGTERM: "terminated.",
    128 + signal.SIGHUP: "terminated: the terminal was closed.",
    128 + signal.SIGUSR1: "terminated by SIGUSR1.",
}
AGAIN_SECONDS = 1.0  # what comes sooner is one key pressed once: a terminal and a launcher may both pass it on
NOTE = b"\nstopping: the training saves what it has after this step; Ctrl-C again to stop at once, without saving.\n"


class Stopped(KeyboardInterrupt):
    """A signal that is answered at once.

    Args:
        number: The signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: BaseException) -> int:
    """That of a signal; a KeyboardInterrupt without a number is Ctrl-C's."""
    return 128 + getattr(stop, "number", signal.SIGINT)


class Kept:
    """Signals that wait for a place where they do no harm.

    Attributes:
        holding: Whether they wait; before and after that they are answered at once.
        saving: Whether what they ask for is being done, so that more of them change nothing.
        number: The one that waits, 0 for none.
    """

    def __init__(self) -> None:
        self.holding = self.saving = False
        self.number = 0
        self._since = 0.0

    def take(self, number: int) -> bool:
        """Keep a signal, or answer it, and return whether it is the first that is kept.

        Raises:
            Stopped: There is nothing to wait for, or Ctrl-C was pressed again.
        """
        if self.saving:
            return False
        again = number == self.number == signal.SIGINT and time.monotonic() - self._since > AGAIN_SECONDS
        if again or not self.holding:
            raise Stopped(number)
        first = self.number == 0
        if number != self.number:
            self.number, self._since = number, time.monotonic()
        return first


_kept: list[Kept] = []  # signals are the process's, and so is this


@contextlib.contextmanager
def heard() -> Iterator[None]:
    """Raise :class:`Stopped` at a signal while it lasts; what is ignored, as SIGHUP under nohup, stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    terminals = [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def answer(number: int, _: Any) -> None:
        if number == signal.SIGHUP:
            _leave(terminals)
        first = take(number)
        if first and os.environ.get("LOCAL_RANK", "0") == "0":  # of several processes one is enough
            with contextlib.suppress(OSError):
                os.write(2, NOTE)  # print could be what was interrupted

    caught = [number for number in NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, answer) for number in caught}
    try:
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def take(number: int) -> bool:
    """Do what is done when this signal comes, and return whether it is the first that is kept.

    Raises:
        Stopped: It is answered at once.
    """
    if not _kept:
        raise Stopped(number)
    return _kept[-1].take(number)


@contextlib.contextmanager
def keeping() -> Iterator[Kept]:
    """Let the code within decide when signals are answered; at once, as long as it does not."""
    kept = Kept()
    with heard():
        _kept.append(kept)
        try:
            yield kept
        finally:
            _kept.remove(kept)


def _leave(terminals: list[TextIO]) -> None:
    """Send nowhere what is still to be said: it would fail at a terminal that is gone."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        for stream in terminals:
            os.dup2(nowhere.fileno(), stream.fileno())
