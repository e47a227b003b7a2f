"""Runs the tests of compiled code in a process of their own: torch cannot trace the shape checks of this one."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.parametrize("speed", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_compiled_code_does_what_it_does_uncompiled(speed):
    without_shape_checks = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", speed]
    command = [sys.executable, "-m", "pytest", "-q", *without_shape_checks, "--durations=5"]
    command += [str(HERE / "compiled_stack.py"), str(HERE / "functional" / "compiled.py")]
    child = subprocess.run(command, cwd=HERE.parent.parent, capture_output=True, text=True, check=False)
    print(child.stdout, child.stderr, sep="\n")
    assert child.returncode == 0, "\n".join(child.stdout.splitlines()[-40:])
