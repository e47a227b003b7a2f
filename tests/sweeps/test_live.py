import io
import math
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from gnn_depth.sweeps.live import Live, Progress, clock, duration

ACC = "test_acc_at_best_val"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


@pytest.fixture
def now():
    return Clock()


def log_view(now, **options):
    file = io.StringIO()
    live = Live(**{"total": 40, "done": 0, "workers": 3, "metric": ACC} | options, console=Console(file=file), now=now)
    return live, file


def terminal_view(now, width=80):
    file = Terminal()
    console = Console(file=file, force_terminal=True, width=width, height=10, color_system=None, legacy_windows=False)
    return Live(40, 4, 3, ACC, console=console, now=now), file


def screen(file):
    """The lines of the view as it was drawn last."""
    last = file.getvalue().rpartition("\x1b[2K")[2] or file.getvalue()
    return [line.rstrip() for line in re.sub(r"\x1b\[[?0-9;]*[A-Za-z]|\r", "", last).splitlines() if line.strip()]


def drawn(live):
    """The view as it would be drawn now."""
    console = Console(file=io.StringIO(), width=live._console.width, color_system=None)
    console.print(live._block())
    return console.file.getvalue().splitlines()


# How far it is

STEPS = st.lists(
    st.tuples(st.sampled_from(["finished", "diverged", "failed", "interrupted", "retry"]), st.floats(0, 100)),
    max_size=20,
)


@given(STEPS, st.integers(0, 5), st.integers(1, 4), st.integers(0, 10))
def test_every_run_is_over_or_running_or_waiting(steps, before, workers, ahead):
    progress = Progress(before + len(steps) + ahead, before, workers, ACC)
    for count, (status, seconds) in enumerate(steps):
        progress = progress.start(f"run {count}", 0.0)
        if status == "retry":
            progress = progress.retry(f"run {count}").start(f"run {count}", 1.0)
        else:
            progress = progress.end(f"run {count}", status, None, seconds)
    again = sum(status == "retry" for status, _ in steps)
    assert len(progress.running) == again
    assert progress.over == before + len(steps) - again


@given(STEPS, st.integers(1, 4), st.integers(0, 10), st.floats(0, 1000))
def test_the_time_left_is_known_once_a_run_has_told_how_long_one_takes(steps, workers, ahead, elapsed):
    progress = Progress(len(steps) + ahead, 0, workers, ACC)
    for count, (status, seconds) in enumerate(steps):
        progress = progress.start(f"run {count}", 0.0)
        if status != "retry":
            progress = progress.end(f"run {count}", status, None, seconds)
    left = progress.seconds_left(elapsed)
    if progress.over == progress.total:
        assert left == 0
    elif any(status in ("finished", "diverged") for status, _ in steps):
        assert 0 <= left <= 100 * progress.total
    else:
        assert left is None


@pytest.mark.parametrize(
    ("waiting", "elapsed", "workers", "left"),
    [
        (6, [], 3, 20.0),  # two rounds of three
        (1, [], 3, 10.0),  # the last run takes its time, however many workers are idle
        (0, [4.0, 7.0], 3, 6.0),
        (0, [25.0], 3, 0.0),  # longer than the mean: it may end at any moment
        (4, [5.0, 15.0], 2, 22.5),  # (4 * 10 + 5 + 0) / 2
    ],
)
def test_the_time_left_is_the_work_left_over_the_workers(waiting, elapsed, workers, left):
    progress = Progress(2 + waiting + len(elapsed), 0, workers, ACC)
    for label, seconds in (("a", 8.0), ("b", 12.0)):  # 10 s on the average
        progress = progress.end(label, "finished", 0.5, seconds)
    for label, since in enumerate(elapsed):
        progress = progress.start(str(label), 1000.0 - since)
    assert progress.seconds_left(1000.0) == pytest.approx(left)


def test_runs_that_were_done_before_and_runs_that_failed_do_not_shorten_the_time_left():
    progress = Progress(10, 5, 1, ACC).end("a", "failed", None, 0.1)
    assert progress.seconds_left(0.0) is None
    assert progress.end("b", "finished", 0.5, 20.0).seconds_left(0.0) == pytest.approx(3 * 20.0)


values = st.none() | st.floats()


@given(st.lists(st.tuples(st.sampled_from(["finished", "diverged", "failed"]), values), max_size=10))
def test_the_best_is_the_highest_accuracy_and_the_lowest_loss_of_runs_that_have_one(ends):
    known = [v for status, v in ends if status != "failed" and v is not None and math.isfinite(v)]
    for metric, best in ((ACC, max), ("val/loss", min), ("train_loss_at_best_val", min)):
        progress = Progress(20, 0, 1, metric)
        for count, (status, value) in enumerate(ends):
            progress = progress.end(str(count), status, value, 1.0)
        assert (progress.best[1] if progress.best else None) == (best(known) if known else None)


def test_of_equal_runs_the_first_stays_the_best():
    progress = Progress(3, 0, 1, ACC).end("a", "finished", 0.5, 1.0).end("b", "finished", 0.5, 1.0)
    assert progress.best == ("a", 0.5)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.5, "1 min"),
        (3569, "59 min"),
        (3570, "1 h 0 min"),
        (7805, "2 h 10 min"),
        (86400, "1 d 0 h"),
        (100 * 3600, "4 d 4 h"),
    ],
)
def test_an_estimate_is_said_no_finer_than_it_is(seconds, words):
    assert duration(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(7.9, "0:07"), (754, "12:34"), (3723, "1:02:03")])
def test_elapsed_time_is_said_to_the_second(seconds, words):
    assert clock(seconds) == words


# Where the output is no terminal


def test_in_a_log_every_run_that_has_ended_is_one_line(now):
    live, file = log_view(now, done=11)
    with live:
        for seed in (0, 1, 2, 3):
            live.start(f"data=Cora,depth=10,norm=lipschitz seed {seed}")
        now.time += 12.3
        live.end("data=Cora,depth=10,norm=lipschitz seed 3", "finished", 0.7912, 12.3)
        live.start("data=Cora,depth=10,norm=none seed 0")
        now.time += 1.0
        live.end("data=Cora,depth=10,norm=lipschitz seed 1", "diverged", 0.2, 13.3)
        live.end("data=Cora,depth=10,norm=none seed 0", "failed", None, 1.0)
    assert file.getvalue().splitlines() == [
        "[12/40] data=Cora,depth=10,norm=lipschitz seed 3: finished 0.791 (best so far) in 12.3 s; "
        "3 running, about 2 min left",
        "[13/40] data=Cora,depth=10,norm=lipschitz seed 1: diverged 0.200 in 13.3 s; "
        "1 diverged, 3 running, about 2 min left",
        "[14/40] data=Cora,depth=10,norm=none seed 0: failed in 1.0 s; 1 diverged, 1 failed, 2 running, "
        "about 2 min left",
    ]


def test_before_anything_is_known_a_log_says_so(now):
    live, file = log_view(now)
    with live:
        live.start("a")
        live.end("a", "failed", None, 3.0)
    assert file.getvalue() == "[1/40] a: failed in 3.0 s; 1 failed, 0 running, time left ?\n"


def test_after_the_last_run_no_time_is_left(now):
    live, file = log_view(now, total=1)
    with live:
        live.start("a")
        live.end("a", "finished", 12345.6, 3.0)
    assert file.getvalue() == "[1/1] a: finished 1.23e+04 (best so far) in 3.0 s; 0 running\n"


def test_what_is_said_is_not_read_as_markup_and_lines_of_a_log_are_not_broken(now):
    live, file = log_view(now)
    text = "[red]not red[/red] :smile: " + "word " * 40
    with live:
        live.say(text)
    assert file.getvalue() == f"{text}\n"


def test_a_run_that_starts_again_is_told_with_its_reason_and_without_one_passed_over(now):
    live, file = log_view(now)
    with live:
        live.start("a")
        live.retry("a", "its worker died")
        live.start("a")
        live.retry("a", "")
        assert live.progress.running == {}
    assert file.getvalue() == "a will be started again: its worker died\n"


def test_a_log_that_is_to_have_colours_is_still_a_log(now):
    file = io.StringIO()
    with Live(2, 0, 1, ACC, console=Console(file=file, force_terminal=True, color_system=None), now=now) as live:
        live.end("a", "finished", 0.5, 1.0)
    assert "\x1b" not in file.getvalue()


def test_everything_goes_to_standard_error(capsys, now):
    with Live(2, 0, 1, ACC, now=now) as live:
        live.end("a", "finished", 0.5, 1.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("[1/2] a: finished")


# On a terminal


def test_the_view_has_counts_elapsed_time_time_left_and_the_best_run(now):
    live, _ = terminal_view(now)
    assert drawn(live)[0].endswith(" 4/40  0:00, time left ?")
    for label in "abcd":
        live.start(label)
    now.time += 20.0
    live.end("a", "diverged", 0.25, 20.0)
    live.end("b", "finished", 0.75, 20.0)
    live.end("c", "failed", None, 20.0)
    now.time += 45.0
    head, counts, best = drawn(live)
    assert head.endswith(" 7/40  1:05, about 4 min left")
    assert counts == "1 diverged, 1 failed, 1 running, longest for 1:05: d"
    assert best == f"best {ACC} 0.750: b"


@given(st.integers(20, 120), st.text(st.characters(exclude_categories=["C"]) | st.just("\n"), max_size=200))
def test_no_line_of_the_view_is_wider_than_the_terminal(width, label):
    live, _ = terminal_view(Clock(), width)
    live.start(label)
    live.end("other" + label, "finished", 0.5, 1e6)
    lines = drawn(live)
    assert len(lines) == 3
    assert all(cell_len(line) <= width for line in lines)


def test_what_is_said_stays_above_the_view(now):
    live, file = terminal_view(now)
    with live:
        live.start("a")
        live.say("something happened")
        live.end("a", "finished", 0.5, 1.0)
    assert file.getvalue().count("something happened") == 1
    assert "something happened" not in screen(file)
    assert screen(file) == [line.rstrip() for line in drawn(live)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
def test_whatever_ends_a_sweep_the_terminal_gets_its_cursor_back(now, error):
    live, file = terminal_view(now)

    def sweep():
        with live:
            live.start("a")
            raise error

    with pytest.raises(error):
        sweep()
    hidden, shown = file.getvalue().rfind("\x1b[?25l"), file.getvalue().rfind("\x1b[?25h")
    assert 0 <= hidden < shown


def test_a_reader_that_has_gone_does_not_end_the_sweep(monkeypatch):
    """As with ``gnn-depth sweep grid.yaml 2>&1 | head -1``."""

    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    with Live(2, 0, 1, "acc") as live:
        live.start("a")
        live.end("a", "finished", 0.5, 1.0)
        live.say("unheard")
    assert live.progress.over == 1
