"""Measure cases against PyTorch Geometric and print a table."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tools.bench import children
from tools.bench.cases import CASES, MALLOCS, SHORT, Case, choose
from tools.bench.table import render, summary

INTERRUPTED = 130  # as shells say it
MEASURE = "tools.bench.measure"
BUDGET = {"short": 10.0, "long": 90.0}  # seconds of samples a case


def main() -> int:
    parser = _parser()
    given = parser.parse_args()
    if given.list:
        for name in CASES:
            print(f"{name}  (short set)" if name in SHORT else name)
        return 0
    try:
        cases = choose(given.case, given.long)
        if given.data and not Path(given.data).expanduser().is_dir():
            raise ValueError(
                f"--data or $GNN_DEPTH_DATA: {given.data!r} is no folder. Leave it out to generate "
                "graphs."
            )
    except ValueError as error:
        parser.error(str(error))
    rows: list[dict[str, Any]] = []
    interrupted = False
    try:
        for case in cases:
            rows += measure(case, given)
            if given.json:  # what was measured stays if the next case is interrupted
                Path(given.json).write_text(
                    json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n"
                )
    except KeyboardInterrupt:
        interrupted = True
        say(f"interrupted: {len(rows)} of the measurements are there.")
    print(render(rows))
    if interrupted:
        return INTERRUPTED
    return int(any("error" in row for row in rows))


def measure(case: Case, given: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of a case: one for each malloc setting. The times come first and warm the disk cache
    of compilation."""
    mallocs = {None: case.mallocs, "both": MALLOCS}.get(given.malloc, (given.malloc,))
    common = [case.name, "--compile", given.compile]
    if given.data:
        common += ["--data", given.data]
    budget = BUDGET["long" if given.long else "short"]
    plan = ["--rounds", str(given.rounds), "--budget", str(budget)]
    rows = []
    for malloc in mallocs:
        tuned = ["--tuned"] if malloc == "tuned" else []
        say(f"{case.name}: time, {malloc} malloc")
        row = {"case": case.name, "malloc": malloc}
        row |= attempt("time", *common, *plan, *tuned, malloc=malloc)
        rows.append(row)
        say(summary(row))
    if not given.no_memory and not any("error" in row for row in rows):
        say(f"{case.name}: memory")
        peaks = {}
        for side in ("peer", "ours"):
            peaks[side] = attempt(side, *common)
            if "error" in peaks[side]:
                rows[0]["error"] = f"memory: {peaks[side]['error']}"
        if "error" not in rows[0]:
            rows[0]["memory"] = peaks
    return rows


def attempt(*arguments: str, malloc: str = "default") -> dict[str, Any]:
    """What the child measured, or its error."""
    try:
        return children.run(MEASURE, *arguments, malloc=malloc)
    except children.ChildError as error:
        return {"error": str(error)}


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    from importlib.metadata import version

    found = {"cpu": "unknown", "cores": os.cpu_count(), "threads": int(children.THREADS)}
    cpus = Path("/proc/cpuinfo")
    for line in cpus.read_text().splitlines() if cpus.is_file() else ():
        if line.startswith("model name"):
            found["cpu"] = line.partition(":")[2].strip()
    for name in ("torch", "torch_geometric", "lightning", "gnn-depth"):
        found[name] = version(name)
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tools.bench", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--case",
        nargs="+",
        default=[],
        metavar="NAME",
        help="these cases; by default the short set",
    )
    parser.add_argument("--long", action="store_true", help="all cases, with more time for each")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument(
        "--rounds", type=int, default=9, help="rounds at most; slow cases take fewer (9)"
    )
    parser.add_argument("--json", metavar="FILE", help="also write everything measured here")
    parser.add_argument(
        "--malloc", choices=[*MALLOCS, "both"], help="by default: both on Squirrel, else default"
    )
    parser.add_argument("--no-memory", action="store_true", help="times only")
    parser.add_argument(
        "--compile", choices=["on", "off"], default="on", help="compiled layers on our side"
    )
    parser.add_argument(
        "--data",
        default=os.environ.get("GNN_DEPTH_DATA"),
        metavar="ROOT",
        help="folder of the real data sets ($GNN_DEPTH_DATA); what is not there is generated",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
