"""What is made of measurements, on made-up ones."""

import pytest

from tools.bench import timing
from tools.bench.timing import Sample, busy_ticks, compare


def rounds(*pairs: tuple[float, float], foreign: float = 0.0) -> list[dict[str, Sample]]:
    return [{"peer": Sample(peer, foreign), "ours": Sample(ours, 0.0)} for peer, ours in pairs]


def test_a_ratio_is_taken_within_each_round_so_a_drift_of_both_sides_cancels():
    pair = compare(rounds((1.0, 0.5), (2.0, 1.0), (4.0, 2.0)))
    assert (pair.low, pair.ratio, pair.high) == (0.5, 0.5, 0.5)
    assert (pair.peer, pair.ours, pair.rounds, pair.noisy) == (2.0, 1.0, 3, False)


def test_rounds_in_which_other_processes_ran_are_dropped_unless_there_are_no_others():
    pair = compare([*rounds((1.0, 0.25)), *rounds((1.0, 9.0), foreign=0.5)])
    assert (pair.ratio, pair.rounds, pair.noisy) == (0.25, 1, False)
    pair = compare(rounds((1.0, 0.25), (1.0, 0.5), (1.0, 0.75), foreign=0.5))
    assert (pair.ratio, pair.low, pair.high, pair.rounds, pair.noisy) == (0.5, 0.25, 0.75, 3, True)


def test_busy_time_leaves_out_idle_waiting_and_stolen_time():
    assert busy_ticks("cpu  1 2 4 1000 2000 8 16 4000 0 0") == 31


def test_a_first_call_that_compiles_is_in_no_sample_and_decides_no_count(monkeypatch):
    calls = []

    def watch(call):
        before = sum(calls)
        call()
        return Sample(sum(calls) - before, foreign=0.0)

    monkeypatch.setattr(timing, "watch", watch)
    seconds = timing.several(lambda: calls.append(0.1 if calls else 30.0), samples=2)
    assert seconds == pytest.approx([0.1, 0.1])
    assert len(calls) == 1 + 2 + 2 * 8  # the first, two that are tried, and samples of 0.8 seconds
