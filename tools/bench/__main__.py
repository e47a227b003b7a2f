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
ON_GPU = ("gat-lip-30-h8", "gatv2-40-cora", *SHORT)
#: Our sides that are compared with each other one, by device.
COMPARED = {"cpu": ("default", "compiled"), "cuda": ("recorded", "default")}
PROCESSES = {"cpu": 3, "cuda": 1}


def rows(name: str, given: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """A row of the table for each side of a case."""
    task: dict[str, Any] = {"case": name, "rounds": given.rounds, "device": given.device}
    possible = (*OURS, *PEERS[CASES[name].family])
    task["sides"] = [side for side in given.sides if side in possible]
    seconds: dict[str, list[float]] = {}
    busy: dict[str, float] = {}
    for _ in range(given.processes or PROCESSES[given.device]):
        found = in_a_process("tools.bench.sides", task)
        busy |= found["busy"]
        for side, of_rounds in found["seconds"].items():
            seconds.setdefault(side, []).extend(of_rounds)
    for side, of_rounds in seconds.items():
        more = ""
        if side in busy:
            more = number(1000 * busy[side])
        step = number(1000 * statistics.median(of_rounds))
        ratios = [compared(ours, side, seconds) for ours in COMPARED[given.device]]
        yield (name, side, step, *ratios, more)


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
    parser.add_argument("--case", nargs="+", choices=CASES, metavar="NAME", help=", ".join(CASES))
    parser.add_argument(
        "--sides",
        nargs="+",
        choices=(*OURS, *PEERS["gcn"]),
        help="those that a case has are timed",
    )
    parser.add_argument("--processes", type=int, help="3; on a GPU 1")
    parser.add_argument("--rounds", type=int, default=3, help="of each process")
    parser.add_argument("--device", default="cpu", choices=COMPARED)
    given = parser.parse_args()
    is_on_gpu = given.device == "cuda"
    given.case = given.case or (ON_GPU if is_on_gpu else SHORT)
    if given.sides is None:
        given.sides = [*COMPARED[given.device], "pyg", "pyg-compiled"]
        given.sides += ["pyg-recorded"] if is_on_gpu else ["torch.sparse"]
    ratios = [f"{ours} / it" for ours in COMPARED[given.device]]
    header = ("case", "side", "step, ms", *ratios, "GPU computes, ms")
    table(header, (row for name in given.case for row in rows(name, given)))


if __name__ == "__main__":
    main()
