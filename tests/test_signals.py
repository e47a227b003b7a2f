"""Signals that ask a process to stop."""

import os
import pty
import signal
import sys

import pytest

from gnn_depth.signals import Stopped, raise_on_signal


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_what_runs_and_is_answered_as_before_afterwards(number):
    before = signal.getsignal(number)
    with pytest.raises(Stopped), raise_on_signal():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_under_nohup_a_closed_terminal_ends_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raise_on_signal():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_is_said_after_the_terminal_was_closed_goes_nowhere(monkeypatch):
    terminal, end = pty.openpty()

    def hang_up():
        os.close(terminal)
        signal.raise_signal(signal.SIGHUP)

    with os.fdopen(end, "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(Stopped), raise_on_signal():
            hang_up()
        print("stopping")  # raises OSError at a terminal that is gone
        stream.flush()
