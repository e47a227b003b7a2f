"""The attacks find planted faults; the continuous integration runs them all."""

from tools.attack.__main__ import quiet, run
from tools.attack.numbers import scores
from tools.attack.table import OPTIONS, Attack


def test_a_command_that_is_not_refused_is_found():
    wrong = Attack("a list that should be refused", ["list"])
    faults = [fault for *_, fault in run([OPTIONS[0], wrong])]
    assert faults == ["", "0 instead of exit code 2"]


def test_metrics_are_those_of_scikit_learn_and_a_difference_of_a_thousandth_is_found(monkeypatch):
    measured = scores.measured

    def wrong(*arguments):
        return {name: value + 1e-3 for name, value in measured(*arguments).items()}

    with quiet():
        assert not any(fault for _, fault in scores.trials(1, 8))
        monkeypatch.setattr(scores, "measured", wrong)
        assert any(fault for _, fault in scores.trials(1, 8))
