"""The one way to time: sides take turns, and a ratio is taken within each turn; and one table."""

import gc
import json
import math
import operator
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Call = Callable[[], object]
Clock = Callable[[], float]

ROOT = Path(__file__).resolve().parents[2]
# Seconds at least: the first steps after those of another side find that side's tensors in the
# caches and its holes in the heap.
SAMPLE = 0.8


def in_turns(
    sides: Mapping[str, Call], rounds: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of a call of each side in every round. The first call of a side, which may compile,
    is in none of them."""
    counts = {}
    for name, call in sides.items():
        call()
        counts[name] = max(1, math.ceil(SAMPLE / seconds_of(call, 1, clock)))
    found: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        order = list(sides)
        if number % 2 == 1:  # no side always comes after the same other one
            order.reverse()
        for name in order:
            found[name].append(seconds_of(sides[name], counts[name], clock))
    return found


def seconds_of(call: Call, count: int, clock: Clock) -> float:
    """Seconds of one of ``count`` calls, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        begin = clock()
        for _ in range(count):
            call()
        return (clock() - begin) / count
    finally:
        gc.enable()


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The median ratio of the pairs, and the smallest and largest: ``0.52 (0.37-0.65)``."""
    ratios = list(map(operator.truediv, ours, theirs))
    middle = number(statistics.median(ratios))
    return f"{middle} ({number(min(ratios))}-{number(max(ratios))})"


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if value <= 0:
        return f"{value:g}"
    digits = 2 - math.floor(math.log10(value))
    return f"{value:,.{max(0, digits)}f}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, each row as soon as it is measured."""
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def in_a_process(module: str, task: dict[str, Any]) -> Any:
    """Run a module on a task in a new process, and read the JSON that it prints.

    Raises:
        SystemExit: It failed, and has said why.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, json.dumps(task)],
        cwd=ROOT,
        env={"OMP_NUM_THREADS": "2"} | os.environ,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{module} failed on {task}")
    return json.loads(done.stdout.splitlines()[-1])
