"""Break the code in small ways, and see whether the tests notice.

::

    python tools/recorded/mutants.py COPY [REPORT]   # COPY: a checkout that may be changed

``mutants.yaml`` lists the breaks. Each is made in the copy, its tests run in a process of their
own until the first failure, and the file is restored. A line of the report says *caught*,
*survived* or *absent* (the text is not in the code), with the break. Mutants that survive are
tests that are missing.
"""

import os
import signal
import sys
import time
from pathlib import Path

import lightning  # noqa: F401  (imported once, for all processes that are forked)
import pytest
import torch
import torch_geometric  # noqa: F401
import yaml

SECONDS = 150  # after which the tests hang, which is caught too


def run_tests(copy: Path, tests: str) -> int:
    """The exit code of pytest in a process of its own; 9 if it had to be killed."""
    child = os.fork()
    if not child:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        torch.set_num_threads(1)
        words = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow and not long", tests]
        os._exit(int(pytest.main(words)))
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.2)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 9


def outcome(copy: Path, name: str, old: str, new: str, tests: str) -> str:
    """Break one file, run its tests, and restore it."""
    path = copy / "gnn_depth" / name
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if old not in before or not (copy / tests).exists():
        return "absent"
    path.write_text(before.replace(old, new), encoding="utf-8")
    try:
        code = run_tests(copy, tests)
    finally:
        path.write_text(before, encoding="utf-8")
    if code == pytest.ExitCode.OK:
        return "survived"
    if code == pytest.ExitCode.NO_TESTS_COLLECTED:
        return "absent"
    return "caught"


def main(folder: str, report: str = "/dev/stdout") -> None:
    mutants = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    with Path(report).open("a", encoding="utf-8") as file:
        for number, mutant in enumerate(mutants, start=1):
            found = outcome(Path(folder).resolve(), *mutant)
            print(f"{found:9}{number:3} {mutant[0]}: {mutant[1]} -> {mutant[2]}", file=file)
            file.flush()


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # a changed file may be as old and as long as before
    main(*sys.argv[1:])
