"""Break the code in small ways, and see whether the tests notice.

::

    python tools/recorded/mutants.py COPY   # a checkout that may be changed

``mutants.yaml`` lists the breaks. Each is made in the copy, its tests run until the first failure,
and the file is restored. A line for each says *caught*, *survived* or *absent* (the text is not in
the code), with the break. Mutants that survive are tests that are missing.
"""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SECONDS = 150  # after which the tests hang, which is caught too
PYTEST = ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m"]


def outcome(copy: Path, name: str, old: str, new: str, tests: str) -> str:
    """Break one file, run its tests, and restore it."""
    path = copy / "gnn_depth" / name
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if old not in before or not (copy / tests).exists():
        return "absent"
    path.write_text(before.replace(old, new), encoding="utf-8")
    # A changed file may be as old and as long as before: no compiled code is kept.
    words = [sys.executable, "-B", *PYTEST, "not slow and not long", tests]
    try:
        done = subprocess.run(words, cwd=copy, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "caught"
    finally:
        path.write_text(before, encoding="utf-8")
    names = {pytest.ExitCode.OK: "survived", pytest.ExitCode.NO_TESTS_COLLECTED: "absent"}
    return names.get(done.returncode, "caught")


def main(folder: str) -> None:
    mutants = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    for number, mutant in enumerate(mutants, start=1):
        found = outcome(Path(folder).resolve(), *mutant)
        print(f"{found:9}{number:3} {mutant[0]}: {mutant[1]} -> {mutant[2]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
