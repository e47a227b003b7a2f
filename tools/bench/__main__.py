"""Time training steps of ours and of peers, and print a table.

All sides of a case take turns in one process, several processes one after the other. A ratio is the
median over all rounds, with the smallest and the largest. A step is zero_grad, forward,
cross-entropy, backward and Adam, in float32 on the whole graph.
"""

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

from tools.bench.cases import CASES
from tools.bench.sides import OURS, PEERS
from tools.bench.timing import in_a_process, number, ratio, table

SHORT = (
    "gat-lip-30-h1",
    "gatv2-10-cora",
    "gatv2-10-squirrel",
    "gcn-64-cora",
    "gcn-64-chameleon",
)
HEADER = ("case", "side", "step, ms", "default / it", "compiled / it", "peak, MiB")


def rows(name: str, given: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """A row of the table for each side of a case."""
    task: dict[str, Any] = {"case": name, "rounds": given.rounds, "device": given.device}
    possible = (*OURS, *PEERS[CASES[name].family])
    task["sides"] = [side for side in given.sides if side in possible]
    seconds: dict[str, list[float]] = {}
    for _ in range(given.processes):
        for side, of_rounds in in_a_process("tools.bench.sides", task).items():
            seconds.setdefault(side, []).extend(of_rounds)
    for side, of_rounds in seconds.items():
        peak = ""
        if given.memory:
            bytes_above = in_a_process("tools.bench.sides", {"case": name, "peak": side})
            peak = f"{bytes_above / 2**20:.0f}"
        step = number(1000 * statistics.median(of_rounds))
        ratios = [compared(ours, side, seconds) for ours in ("default", "compiled")]
        yield (name, side, step, *ratios, peak)


def compared(ours: str, side: str, seconds: dict[str, list[float]]) -> str:
    """The ratio of one of our sides to another side; empty if it was not timed, or is that side."""
    if ours == side or ours not in seconds:
        return ""
    return ratio(seconds[ours], seconds[side])


def main() -> None:
    parser = argparse.ArgumentParser(
        "python -m tools.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--case", nargs="+", default=SHORT, choices=CASES, metavar="NAME", help=", ".join(CASES)
    )
    parser.add_argument(
        "--sides",
        nargs="+",
        default=("default", "compiled", *PEERS["gcn"]),
        choices=(*OURS, *PEERS["gcn"]),
        help="those that a case has are timed",
    )
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3, help="of each process")
    parser.add_argument(
        "--memory",
        action="store_true",
        help="also the peak of each side above imports and data, in a process of its own",
    )
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    if given.memory and given.device != "cpu":
        parser.error("--memory is that of the CPU: leave --device out.")
    table(HEADER, (row for name in given.case for row in rows(name, given)))


if __name__ == "__main__":
    main()
