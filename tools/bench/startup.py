"""How long a command takes to start, beside the imports that nobody can avoid: ``python -m
tools.bench.startup``. Times are processor time, since other programs may be running."""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from functools import partial

from tools.bench.timing import in_turns, number, ratio, table

IMPORTS = "import torch, lightning, torch_geometric"
PROGRAM = "import sys; from gnn_depth.cli import main; sys.exit(main(sys.argv[1:]))"
COMMANDS = (
    "--version",
    "--help",
    "list",
    "fit --help",
    "fit --model.norm.help pair",
    "fit --model.norm lipshitz",
    "table --help",
    "fit --print_config",
)


def run(code: str, *words: str) -> None:
    """Run Python in a process of its own; some of the commands are mistakes on purpose."""
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, capture_output=True, check=False, env=environment)


def seconds_of_children() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser("python -m tools.bench.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    calls = {IMPORTS: partial(run, IMPORTS)}
    for line in COMMANDS:
        calls[f"gnn-depth {line}"] = partial(run, PROGRAM, *line.split())
    seconds = in_turns(calls, given.rounds, seconds_of_children)
    rows = []
    for name, of_rounds in seconds.items():
        middle = number(statistics.median(of_rounds))
        rows.append((name, middle, ratio(of_rounds, seconds[IMPORTS])))
    table(("command", "seconds", "relative to the imports (range)"), rows)


if __name__ == "__main__":
    main()
