"""Runs the suites on the built-in parts in a process of its own: torch cannot trace the shape checks of this one."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_the_built_in_parts_conform():
    without_shape_checks = ["-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:logging"]
    command = [sys.executable, "-m", "pytest", "-q", *without_shape_checks, "--durations=5", str(HERE / "built_in.py")]
    child = subprocess.run(command, cwd=HERE.parent.parent, capture_output=True, text=True, check=False)
    print(child.stdout, child.stderr, sep="\n")
    assert child.returncode == 0, "\n".join(child.stdout.splitlines()[-60:])
