"""What is made of measurements, on made-up ones."""

from tools.bench.timing import Patience, Plan, Sample, busy_ticks, compare, sample


def rounds(*pairs: tuple[float, float], foreign: float = 0.0) -> list[dict[str, Sample]]:
    return [{"peer": Sample(peer, foreign), "ours": Sample(ours, 0.0)} for peer, ours in pairs]


def test_a_ratio_is_taken_within_each_round_so_a_drift_of_both_sides_cancels():
    pair = compare(rounds((1.0, 0.5), (2.0, 1.0), (4.0, 2.0)))
    assert (pair.low, pair.ratio, pair.high) == (0.5, 0.5, 0.5)
    assert (pair.peer, pair.ours, pair.rounds, pair.noisy) == (2.0, 1.0, 3, False)


def test_rounds_in_which_other_processes_ran_are_dropped():
    pair = compare([*rounds((1.0, 0.25)), *rounds((1.0, 9.0), foreign=0.5)])
    assert (pair.ratio, pair.rounds, pair.noisy) == (0.25, 1, False)


def test_noisy_rounds_serve_where_there_are_no_others_and_are_marked():
    pair = compare(rounds((1.0, 0.25), (1.0, 0.5), (1.0, 0.75), foreign=0.5))
    assert (pair.ratio, pair.low, pair.high, pair.rounds, pair.noisy) == (0.5, 0.25, 0.75, 3, True)


def test_busy_time_leaves_out_idle_waiting_and_stolen_time():
    assert busy_ticks("cpu  1 2 4 1000 2000 8 16 4000 0 0") == 31


def test_slow_cases_get_fewer_rounds_and_three_at_least():
    counts = [
        Plan(rounds=9, budget=30.0).count(*spent_done) for spent_done in ((1.0, 1), (6.0, 1), (300.0, 1), (60.0, 5))
    ]
    assert counts == [9, 5, 3, 3]
    assert Plan(rounds=1, budget=30.0).count(1.0, 1) == 1, "fewer may be asked for"


def test_without_patience_a_sample_is_taken_at_once_and_once():
    calls = []
    sample(lambda: calls.append(1), 3, Patience(left=0.0))
    assert len(calls) == 3
