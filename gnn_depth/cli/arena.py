"""``gnn-depth arena``: remedies for depth, trained alike and compared."""

import logging
import os
import sys
import time
from argparse import Namespace

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import Options, positive_float

RECORDS = "docs/results/arena.jsonl"


def main(argv: list[str]) -> int:
    """Train, check or compare the arena's remedies."""
    options = parser().parse_args(argv)
    from gnn_depth.arena.records import RecordError

    try:
        if options.run:
            return _run(options)
    except RecordError as error:
        raise UsageError(str(error)) from error
    raise UsageError("choose what to do: --run.")


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
    add("--max-hours", type=positive_float, metavar="H", help="start no training after this time")
    add("--sets", nargs="+", default=[], metavar="SET", help="only these data sets")
    add("--remedies", nargs="+", default=[], metavar="NAME", help="only these remedies")
    return options


def _run(options: Namespace) -> int:
    """Train what is missing, until all is done, the time is up, or the process is stopped."""
    from gnn_depth.arena.definition import Arena
    from gnn_depth.arena.records import Records
    from gnn_depth.arena.running import missing, run_missing

    arena = Arena()
    _check_words(arena, options)
    until = float("inf")
    if options.max_hours is not None:
        until = time.monotonic() + 3600 * options.max_hours
    _show_progress()
    with Records(options.records, writes=True) as records:
        jobs = missing(arena, records, options.sets, options.remedies)
        count = run_missing(arena, records, until, jobs)
        print(f"{count} trainings, {len(records)} records in {options.records}")
    return 0


def _check_words(arena: object, options: Namespace) -> None:
    """Refuse sets and remedies that the arena does not have."""
    try:
        arena.restricted(options.sets, options.remedies)  # type: ignore[attr-defined]
    except ValueError as error:
        raise UsageError(str(error)) from error


def _show_progress() -> None:
    """Print a line for each training, and warn if several threads would slow them down."""
    shown = logging.StreamHandler(sys.stderr)
    log = logging.getLogger("gnn_depth.arena")
    log.handlers = [shown]
    log.setLevel(logging.INFO)
    log.propagate = False
    if os.environ.get("OMP_NUM_THREADS") != "1":
        print(
            "OMP_NUM_THREADS=1 is faster where several trainings share a machine, and makes times "
            "comparable.",
            file=sys.stderr,
        )
