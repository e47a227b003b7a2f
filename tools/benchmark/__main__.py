"""Train what the benchmark lacks, check its records, or write its page.

Without options it prints the tables. ``--run`` can be stopped and started again at any time.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import pandas as pd

from gnn_depth import registry
from tools.benchmark import page, records
from tools.benchmark.definition import DEPTHS, METHODS, REFERENCE, SETS
from tools.benchmark.running import Benchmark, cells, perform

RECORDS = Path("docs/results/benchmark.csv")
PAGE = Path("docs/benchmark.md")
#: The kinds of parts that a plugin can add to the comparison.
KINDS = ("layer", "norm", "skip", "init", "graph_dropout")


def methods_of(plugin: str) -> dict[str, dict[str, Any]]:
    """A method for each part that a plugin registers, with the part's default options."""
    before = {kind: set(registry.registered(kind)) for kind in KINDS}
    registry.load_plugin(plugin)
    found = {}
    for kind in KINDS:
        for name in registry.registered(kind):
            if name not in before[kind]:
                found[name] = {kind: name}
    return found


def hours(frame: pd.DataFrame, sets: list[str], depths: list[int]) -> float:
    """The time that one method takes, as long as that of the reference; NaN without records."""
    chosen = frame[(frame.method == REFERENCE) & frame.set.isin(sets) & frame.depth.isin(depths)]
    return float(chosen.seconds.sum(min_count=1)) / 3600


def check(frame: pd.DataFrame, count: int) -> list[str]:
    """Train random records again; one line for each that is not equal."""
    wrong = []
    for record in frame.sample(count).to_dict("records"):
        training = {name: record[name] for name in records.KEY}
        again = perform(training, METHODS[training["method"]])
        for name in ("val", "test", "ran", "loss"):
            is_empty = record[name] != record[name]  # NaN, as the test metric of a tuning
            if not is_empty and again[name] != record[name]:
                wrong.append(f"{training}: {name} {record[name]}, again {again[name]}")
    return wrong


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser("python -m tools.benchmark", description=__doc__)
    parser.add_argument("--run", action="store_true", help="train what is missing")
    parser.add_argument("--add", metavar="PLUGIN", help="train the parts of your own file instead")
    parser.add_argument("--check", type=int, metavar="N", help="train N random records again")
    parser.add_argument("--page", action="store_true", help=f"write the tables of {PAGE}")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--set", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--depths", nargs="+", type=int, default=list(DEPTHS))
    parser.add_argument("--max-hours", type=float, default=float("inf"))
    given = parser.parse_args(argv)
    frame = records.read(given.records)
    if given.check:
        wrong = check(frame, given.check)
        raise SystemExit("\n".join(wrong) or 0)
    if given.run or given.add:
        methods = METHODS
        chosen = given.methods
        if given.add:
            own = methods_of(given.add)
            methods, chosen = {**METHODS, **own}, list(own)
            print(f"about {hours(frame, given.set, given.depths):.1f} hours for each part")
        until = time.monotonic() + 3600 * given.max_hours
        benchmark = Benchmark(given.records, methods, until)
        for name, method, depth in cells(given.set, chosen, given.depths):
            if not benchmark.run_cell(name, method, depth):
                break
        frame = records.read(given.records)
    if given.page:
        page.write(frame, PAGE)
    else:
        print(page.tables(frame, [name for name in given.set if name in set(frame.set)]))


if __name__ == "__main__":
    main()
