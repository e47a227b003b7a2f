"""Fresh processes with the threads and the malloc that a measurement wants."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
THREADS = "2"
# Never give pages back: large blocks from the heap, which is not trimmed and grows by 64 MB at a
# time.
TUNED = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**32),
    "MALLOC_TOP_PAD_": str(2**26),
}
# Give all pages back: without this glibc takes ever more for large blocks, as the room that is
# freed between two kept ones is too small, by its alignment, for the next of the same size.
GIVING = {"MALLOC_TRIM_THRESHOLD_": str(2**17)}
MALLOCS = {"default": {}, "tuned": TUNED, "giving": GIVING}


class ChildError(Exception):
    """A measurement that failed; the message is what its process said last."""


def environment(malloc: str) -> dict[str, str]:
    """The variables of this process, but for threads and malloc, which are as asked for."""
    kept = {}
    for name, value in os.environ.items():
        if not name.startswith(("MALLOC_", "GLIBC_TUNABLES")):
            kept[name] = value
    threads = {"OMP_NUM_THREADS": THREADS, "MKL_NUM_THREADS": THREADS}
    return kept | threads | MALLOCS[malloc]


def run(
    module: str, *arguments: str, malloc: str = "default", python: str = sys.executable
) -> dict[str, Any]:
    """Run a module, by this Python or another one, and read the JSON in its last line.

    Raises:
        ChildError: It failed.
    """
    command = [python, "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(malloc), capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise ChildError(said[-1])
    return json.loads(lines[-1])


def each(
    module: str, runs: Sequence[Sequence[str]], malloc: str = "default"
) -> list[dict[str, Any]]:
    """Run a module with ``--one`` and each of the arguments, one process after the other."""
    rows = []
    for arguments in runs:
        print(" ".join(arguments), file=sys.stderr, flush=True)
        rows.append(run(module, "--one", *arguments, malloc=malloc))
    return rows
