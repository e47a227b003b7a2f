"""The attacks find planted faults, and what they draw at random finds none here; the continuous
integration runs the others."""

from tools.attack import configs
from tools.attack.__main__ import call, quiet, run
from tools.attack.numbers import scores
from tools.attack.stops import stops
from tools.attack.table import Attack


def test_drawn_configs_are_trained_or_refused_and_a_command_that_is_not_refused_is_found():
    wrong = Attack("a list that should be refused", ["list"], {}, (2,))
    faults = {}
    for attack, outcome in run([*configs.draw(6, seed=1), wrong]):
        faults[attack.name] = outcome.fault(attack)
    assert len(faults) == 7
    assert faults.pop(wrong.name) == "0 instead of exit code 2"
    assert set(faults.values()) == {""}, faults


def test_trainings_stopped_at_random_go_on_to_the_last_bit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [(result, fault) for _, result, fault in stops(1, 1, call)] == [("0, 143, 0", "")]


def test_metrics_are_those_of_scikit_learn_and_a_difference_of_a_thousandth_is_found(monkeypatch):
    measured = scores.measured

    def wrong(*arguments):
        return {name: value + 1e-3 for name, value in measured(*arguments).items()}

    with quiet():
        assert not any(fault for _, fault in scores.trials(1, 20))
        monkeypatch.setattr(scores, "measured", wrong)
        assert any(fault for _, fault in scores.trials(1, 20))
