"""How long a command takes to start, beside the imports that nobody can avoid: ``python -m
tools.bench.startup``.

Every command is a fresh process, and what counts is its processor time, since other programs may be
running. Commands and imports take turns; a ratio is the median over rounds of a command's time over
that of the imports in its round.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator

BASE = "import torch, lightning, torch_geometric"
PROGRAM = "import sys; from gnn_depth.cli import main; sys.exit(main(sys.argv[1:]))"
# What has to be there at once, and what may take half as long again as the imports.
AT_ONCE = (
    "--version",
    "--help",
    "list",
    "fit --model.norm.help pair",
    "fitt",
    "fit --config no_such_file.yaml",
    "sweep no_such_file.yaml",
    "fit --help",
    "fit --lr 0.1",
    "fit --modle.norm pair",
    "fit --model.norm lipshitz",
    "table --help",
    "plot --help",
)
WITH_TORCH = (
    "fit --print_config",
    "sweep configs/sweeps/gcn_seeds.yaml --dry-run",
)


def cpu_seconds(code: str, *words: str) -> float:
    """Processor time of a process of Python, and of those that it has waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-c", code, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, capture_output=True, check=False, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def rounds(lines: tuple[str, ...], number: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Times of the imports and of every command, in turns; those of the first round are thrown
    away."""
    for turn in range(number + 1):
        base = cpu_seconds(BASE)
        found = {line: cpu_seconds(PROGRAM, *line.split()) for line in lines}
        if turn:
            yield base, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--data", default="", help="folder of Cora, without which the dry run is left out"
    )
    options = parser.parse_args()
    heavy = WITH_TORCH
    if options.data:
        os.environ["GNN_DEPTH_DATA"] = options.data
    else:
        heavy = tuple(line for line in heavy if "--dry-run" not in line)
    taken = list(rounds((*AT_ONCE, *heavy), options.rounds))
    base = statistics.median(imports for imports, _ in taken)
    print(f"{base:6.2f} s          {BASE}")
    for line in (*AT_ONCE, *heavy):
        median = statistics.median(found[line] for _, found in taken)
        ratio = statistics.median(found[line] / imports for imports, found in taken)
        print(f"{median:6.2f} s  {ratio:5.2f}   gnn-depth {line}")


if __name__ == "__main__":
    main()
