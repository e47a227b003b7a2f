import io
import math
import re
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gnn_depth.sweeps.progress import SweepProgress, duration

ACC = "test_acc_at_best_val"
POOL = SimpleNamespace(workers=3)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def in_a_log(total=40, done=0, **options):
    file = io.StringIO()
    return SweepProgress(
        total, done, POOL, ACC, Console(file=file, color_system=None, **options)
    ), file


def on_a_terminal(width=100):
    file = Terminal()
    console = Console(
        file=file,
        force_terminal=True,
        width=width,
        height=10,
        color_system=None,
        legacy_windows=False,
    )
    return SweepProgress(40, 4, POOL, ACC, console), file


def left(progress):
    return re.search(r"about (.*) left|time left \?|$", progress._state()).group()


def test_the_time_left_is_that_of_the_runs_left_over_the_workers():
    progress, _ = in_a_log(total=11, done=2)
    progress.end("a", "failed", None, 0.1)  # tells nothing
    assert left(progress) == "time left ?"
    for label, seconds in (("b", 8.0), ("c", 12.0)):
        progress.end(label, "finished", 0.5, seconds)
    assert left(progress) == "about 20 s left"  # two rounds of three, 10 s each
    for label in "defgh":
        progress.end(label, "diverged", None, 10.0)
    assert (
        left(progress) == "about 10 s left"
    )  # the last run takes its time, however many workers are idle
    progress.end("i", "finished", 0.5, 10.0)
    assert left(progress) == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["finished", "diverged", "failed"]), st.none() | st.floats()),
        max_size=5,
    )
)
def test_the_best_is_the_highest_accuracy_and_the_lowest_loss_of_finished_runs(ends):
    finished = [value for status, value in ends if status == "finished"]
    known = [value for value in finished if value is not None and math.isfinite(value)]
    for metric, best in ((ACC, max), ("val/loss", min), ("test_mae_at_best_val", min)):
        progress, _ = in_a_log()
        progress.metric = metric
        for count, (status, value) in enumerate(ends):
            progress.end(str(count), status, value, 1.0)
        assert progress.best == (best(known) if known else None)


def test_an_estimate_is_no_more_precise_than_it_can_be():
    said = {
        0: "0 s",
        59.5: "1 min",
        3569: "59 min",
        3570: "1 h 0 min",
        7805: "2 h 10 min",
        360_000: "4 d 4 h",
    }
    assert {seconds: duration(seconds) for seconds in said} == said


def test_in_a_log_every_run_that_has_ended_is_one_line():
    progress, file = in_a_log(done=11)
    with progress:
        for seed in (0, 1, 2, 3):
            progress.start(f"depth=10 seed {seed}")
        progress.end("depth=10 seed 3", "finished", 0.7912, 12.3)
        progress.end("depth=10 seed 1", "diverged", 12345.6, 12.3)
        progress.end("depth=10 seed 0", "failed", None, 1.0)
        progress.start("depth=10 seed 0")
        progress.retry("depth=10 seed 0", "its worker died")
        progress.retry("depth=10 seed 1", "its worker died", goes_on=False)
        progress.retry("depth=10 seed 2", "")
    assert file.getvalue().splitlines() == [
        "[12/40] depth=10 seed 3: finished 0.791 (best so far) in 12.3 s; 3 running, about 2 min "
        "left",
        "[13/40] depth=10 seed 1: diverged 1.23e+04 in 12.3 s; 1 diverged, 2 running, about 2 min "
        "left",
        "[14/40] depth=10 seed 0: failed in 1.0 s; 1 diverged, 1 failed, 1 running, about 2 min "
        "left",
        "depth=10 seed 0 will be started again: its worker died",
        "depth=10 seed 1 has stopped: its worker died",
    ]
    assert not progress.running


def test_a_log_has_text_as_it_is_and_no_cursor_even_in_colours():
    progress, file = in_a_log(force_terminal=True)
    text = "[red]not red[/red] :smile: " + "word " * 40
    with progress:
        progress.print(text)
    assert file.getvalue() == f"{text}\n"


def test_on_a_terminal_printed_text_stays_above_a_bar_with_counts_and_times():
    progress, file = on_a_terminal(width=160)
    with progress:
        for label in "abcd":
            progress.start(label)
        progress.print("something happened")
        for label, status, value in (
            ("a", "diverged", 0.25),
            ("b", "finished", 0.75),
            ("c", "failed", None),
        ):
            progress.end(label, status, value, 20.0)
    assert file.getvalue().count("something happened") == 1
    bar = file.getvalue().rpartition("\x1b[2K")[2]
    assert "something happened" not in bar
    assert all(
        part in bar for part in ("7/40", "1 diverged, 1 failed, 1 running, about 4 min left")
    )


def test_however_a_sweep_ends_the_terminal_gets_its_cursor_back():
    progress, file = on_a_terminal()
    with pytest.raises(KeyboardInterrupt), progress:
        raise KeyboardInterrupt
    hidden, shown = file.getvalue().rfind("\x1b[?25l"), file.getvalue().rfind("\x1b[?25h")
    assert 0 <= hidden < shown


def test_a_reader_that_has_gone_does_not_end_the_sweep(monkeypatch):
    """As with ``gnn-depth sweep grid.yaml 2>&1 | head -1``."""

    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    with SweepProgress(2, 0, POOL, "acc") as progress:
        progress.start("a")
        progress.end("a", "finished", 0.5, 1.0)
        progress.print("unheard")
    assert progress.over == 1
