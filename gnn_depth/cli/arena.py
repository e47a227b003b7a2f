"""``gnn-depth arena``: remedies for depth, trained alike and compared."""

import logging
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options, positive_float, positive_int

if TYPE_CHECKING:
    from gnn_depth.arena.definition import Arena
    from gnn_depth.arena.records import TrainingRecord

RECORDS = "docs/results/arena.jsonl.gz"
ADDED = "runs/arena.jsonl"


def main(argv: list[str]) -> int:
    """Train, check or compare the arena's remedies."""
    options = parser().parse_args(argv)
    chosen = [options.run, options.verify is not None, options.add, options.pages]
    if sum(map(bool, chosen)) > 1:
        raise UsageError("choose one of --run, --verify, --add and --pages.")
    if options.max_hours is not None and not (options.run or options.add):
        raise UsageError("--max-hours ends --run or --add: choose one of them.")
    if options.accelerator != "cpu" and not (options.run or options.add):
        raise UsageError("--accelerator is where --run or --add trains: choose one of them.")
    # What follows imports PyTorch.
    from gnn_depth.arena.definition import Arena

    arena = Arena()
    try:
        arena = arena.restricted(options.sets, options.remedies)
        if options.add:
            return _add(arena, options)
        if options.run:
            return _run(arena, options)
        if options.verify is not None:
            return _verify(arena, options)
        return _show(arena, options)
    except ValueError as error:
        raise UsageError(str(error)) from error


def parser() -> Options:
    options = Options(
        "arena",
        "Remedies for depth, trained alike on several data sets and depths, and compared. Without "
        "options it prints the comparison.",
        "[--run | --verify N | --add PLUGIN | --pages FOLDER] [--records FILE]",
    )
    add = options.add_argument
    add("--records", default=RECORDS, metavar="FILE", help="one line for every training")
    add("--run", action="store_true", help="train what is missing; stop and go on at any time")
    add("--verify", type=positive_int, metavar="N", help="train N random records again, compare")
    add("--add", metavar="PLUGIN", help="train what a part of your own lacks, such as my_norm.py")
    add("--pages", metavar="FOLDER", help="write arena.md, court.md and their pictures")
    add("--sets", nargs="+", default=[], metavar="SET", help="only these data sets")
    add("--remedies", nargs="+", default=[], metavar="NAME", help="only these remedies")
    add("--max-hours", type=positive_float, metavar="H", help="start no training after this time")
    add("--accelerator", choices=("cpu", "gpu"), default="cpu", help="where it is trained")
    add("--seed", type=int, default=0, help="determines the records of --verify")
    add("--output", default=ADDED, metavar="FILE", help="records of --add")
    return options


def _run(arena: "Arena", options: Namespace) -> int:
    """Train what is missing, until all is done, the time is up, or the process is stopped."""
    from gnn_depth.arena.records import Records
    from gnn_depth.arena.running import run_missing

    _show_progress()
    with Records(options.records, writes=True) as records:
        count = run_missing(arena, records, _until(options), options.accelerator)
        print(f"{count} trainings, {len(records)} records in {options.records}")
    return 0


def _add(arena: "Arena", options: Namespace) -> int:
    """Train the share of a plugin's parts, and show them among the others."""
    from gnn_depth.arena.checking import remedies_of
    from gnn_depth.arena.pages import terminal_summary
    from gnn_depth.arena.records import Records
    from gnn_depth.arena.results import Results
    from gnn_depth.arena.running import run_missing

    own = remedies_of(options.add)
    together = arena.with_remedies(own)
    # Only read: the plugin's records go to a file of their own.
    known = Records(options.records)
    _show_progress()
    with Records(options.output, writes=True) as records:
        share = together.restricted(remedies=list(own))
        count = run_missing(share, records, _until(options), options.accelerator)
        results = Results(together, _of(together, [*known, *records]))
    print(terminal_summary(results))
    print(f"\n{count} trainings of {', '.join(own)}, records in {options.output}")
    return 0


def _verify(arena: "Arena", options: Namespace) -> int:
    """Train some records again; exit code 1 if one does not agree."""
    from gnn_depth.arena.checking import train_again
    from gnn_depth.arena.records import Records

    code = 0
    for one in train_again(arena, Records(options.records), options.verify, options.seed):
        if not one.agrees:
            code = 1
        print(one)
    return code


def _show(arena: "Arena", options: Namespace) -> int:
    """Print the comparison, or write the pages."""
    from gnn_depth.arena.court import write_court
    from gnn_depth.arena.pages import terminal_summary, write_arena
    from gnn_depth.arena.records import Records
    from gnn_depth.arena.results import Results

    records = _of(arena, Records(options.records))
    results = Results(arena, records)
    if options.pages is None:
        print(terminal_summary(results))
        return 0
    folder = Path(options.pages)
    if not folder.is_dir():
        raise UsageError(f"--pages {options.pages} is no folder: name the one of your pages.")
    print(write_arena(results, folder))
    print(write_court(records, arena, folder))
    return 0


def _of(arena: "Arena", records: Iterable["TrainingRecord"]) -> list["TrainingRecord"]:
    """The records of an arena; says how many are of another definition, and so left out."""
    from gnn_depth.arena.running import belongs

    known, others = [], 0
    for record in records:
        if belongs(arena, record):
            known.append(record)
        else:
            others += 1
    if others:
        print(
            f"{others} records are of other sets or remedies, or of another definition of them: "
            "left out.",
            file=sys.stderr,
        )
    return known


def _until(options: Namespace) -> float:
    if options.max_hours is None:
        return float("inf")
    return time.monotonic() + 3600 * float(options.max_hours)


def _show_progress() -> None:
    """Print a line for each training, and say if several threads would slow them down."""
    log = logging.getLogger("gnn_depth.arena")
    log.handlers = [logging.StreamHandler(sys.stderr)]
    log.setLevel(logging.INFO)
    # Else a handler of the root logger would print each line again.
    log.propagate = False
    if os.environ.get("OMP_NUM_THREADS") != "1":
        print(
            "OMP_NUM_THREADS=1 is faster where several trainings share a machine, and makes times "
            "comparable.",
            file=sys.stderr,
        )
