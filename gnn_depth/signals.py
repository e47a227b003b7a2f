"""Signals that ask a process to stop: handled at once, or held back until a checkpoint is saved.

Nothing happens at import; handlers are installed while :func:`raise_on_signal` lasts, by
the command alone.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A cluster's time limit, a closed terminal, kill, and Ctrl-C.
NUMBERS = (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM, signal.SIGINT)
LATE = 124  # the exit code of a training whose time is up, as that of the program timeout
# The last line of output by exit code, which is 128 + the signal's number, as in shells.
SAID = {
    LATE: "stopped: its time is up.",
    128 + signal.SIGINT: "interrupted.",
    128 + signal.SIGTERM: "terminated.",
    128 + signal.SIGHUP: "terminated: the terminal was closed.",
    128 + signal.SIGUSR1: "terminated by SIGUSR1.",
}
# A second Ctrl-C sooner is the same key press: a terminal and a launcher may both pass it on.
AGAIN_SECONDS = 1.0
NOTE = (
    b"\nstopping after this step, then saving; a step takes up to a minute while layers are "
    b"compiled. A second Ctrl-C stops at once, without saving.\n"
)


class Stopped(KeyboardInterrupt):
    """A signal that is handled at once."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: BaseException) -> int:
    """Exit code after a signal; a KeyboardInterrupt without a number is Ctrl-C."""
    return 128 + getattr(stop, "number", signal.SIGINT)


class DeferredSignals:
    """Signals that are held back until stopping is safe."""

    def __init__(self) -> None:
        self.holding = False  # True while signals are held back; otherwise they are handled at once
        # True while the process is stopping, so that further signals change nothing.
        self.saving = False
        self.number = 0  # the signal that is held back, 0 for none
        self._since = 0.0

    def handle(self, number: int) -> bool:
        """Hold a signal back and return whether it is the first, or raise :class:`Stopped` to
        handle it at once."""
        if self.saving:
            return False
        again = (
            number == self.number == signal.SIGINT
            and time.monotonic() - self._since > AGAIN_SECONDS
        )
        if again or not self.holding:
            raise Stopped(number)
        first = self.number == 0
        if number != self.number:
            self.number, self._since = number, time.monotonic()
        return first


@contextlib.contextmanager
def raise_on_signal() -> Iterator[DeferredSignals]:
    """Raise :class:`Stopped` on a signal inside the context, unless the code there holds signals
    back; ignored signals stay ignored, as SIGHUP under nohup."""
    kept = DeferredSignals()
    if threading.current_thread() is not threading.main_thread():
        yield kept
        return
    terminals = [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def answer(number: int, _: Any) -> None:
        if number == signal.SIGHUP:  # writing to a closed terminal would fail
            with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
                for stream in terminals:
                    os.dup2(nowhere.fileno(), stream.fileno())
        first = kept.handle(number)
        if first and os.environ.get("LOCAL_RANK", "0") == "0":  # one of several processes is enough
            with contextlib.suppress(OSError):
                os.write(2, NOTE)  # print could be what was interrupted

    # Who ignores a signal, as nohup does, means its children too.
    caught = [number for number in NUMBERS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, answer) for number in caught}
    try:
        yield kept
    finally:
        for number, known in before.items():
            signal.signal(number, known)
