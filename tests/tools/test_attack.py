"""The attacks find planted faults; the continuous integration runs them all."""

from tools.attack.__main__ import run
from tools.attack.table import OPTIONS, Attack


def test_a_command_that_is_not_refused_is_found():
    wrong = Attack("a list that should be refused", ["list"])
    faults = [fault for *_, fault in run([OPTIONS[0], wrong])]
    assert faults == ["", "0 instead of exit code 2"]
