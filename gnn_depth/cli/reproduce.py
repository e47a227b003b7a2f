"""``gnn-depth reproduce``: a paper's table or figure, ours beside it."""

import argparse
import time

from gnn_depth.cli import items, trust
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.grids import add_options, open_engine, part
from gnn_depth.cli.options import Options, positive_number
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.cli.sweep import load_grid, split_overrides
from gnn_depth.sweeps.grid import Grid
from gnn_depth.sweeps.store import ResultWarning

SAMPLED = 3  # groups of each item that --list measures


def main(words: list[str]) -> int:
    """Run what is missing of an item and show it beside the published numbers.

    Returns:
        The exit code, as that of a sweep.

    Raises:
        UsageError: Something that was asked for does not exist or does not fit.
    """
    overrides, words = split_overrides(words)
    trusted, _ = trust.take(overrides)
    if trusted is None:  # a paper's configs need no class of anybody's
        trusted, overrides = True, [*overrides, f"{trust.FLAG}=true"]
    options = parser().parse_args(words)
    if options.list:
        return _list(overrides, options, trusted)
    if not options.item:
        raise UsageError(f"an item is missing. Available: {', '.join(sorted(items.names()))}.")
    return _reproduce(overrides, options, trusted)


def _reproduce(overrides: list[str], options: argparse.Namespace, trusted: bool) -> int:
    from gnn_depth.cli.comparison import check, show

    item = items.load(options.item)
    grid = part(load_grid(str(item.grid), trusted), options)
    check(item, grid)
    deadline = time.monotonic() + 3600 * options.max_hours if options.max_hours else float("inf")
    with plain_warnings(ResultWarning), open_engine(options) as engine:
        from gnn_depth.cli.plans import carry_out, make_plan

        absent: dict[str, str] = {}
        known = absent if options.available else None
        plan = make_plan(grid, item.grid.parent, overrides, options, options.force, known)
        if absent:
            print(_left_out(absent, grid))
        if not plan.runs:
            raise UsageError(f"nothing is left of {item.name}.")
        if options.estimate:
            from gnn_depth.cli.cost import estimate

            print(f"{item.name}: {estimate(plan, engine)}")
            return 0
        code = carry_out(plan, engine, options.retries, deadline)
    if not any(record.is_result for record in plan.found()):
        print("no run has ended, so there is nothing to show")
        return code
    show(item, plan, plan.store.root / "reproduced")
    return code


def parser() -> Options:
    parser = Options(
        "reproduce",
        "Run what is missing of a table or figure of a paper, and show ours beside it.",
        "ITEM [--subset AXIS=VALUE,...] [--max-hours H] [--estimate] | --list",
    )
    parser.add_argument("item", nargs="?", help="lipschitz/depth, or a file of one's own; --list shows all")
    parser.add_argument("--list", action="store_true", help="all items, or ITEM, and what each costs here")
    parser.add_argument("--estimate", action="store_true", help="measure a few epochs and say how long it would take")
    parser.add_argument("--available", action="store_true", help="leave out the runs whose data is not here")
    parser.add_argument("--max-hours", type=positive_number, help="start no run after this time")
    add_options(parser)
    return parser


def _list(overrides: list[str], options: argparse.Namespace, trusted: bool) -> int:
    """Every item, or the one asked for, with its number of runs and what is left of it, measured on a few groups."""
    with plain_warnings(ResultWarning), open_engine(options) as engine:
        from gnn_depth.cli.cost import estimate
        from gnn_depth.cli.plans import make_plan

        for item in [items.load(options.item)] if options.item else items.every():
            print(f"{item.name}: {item.title}\n  {item.source}", flush=True)
            absent: dict[str, str] = {}
            grid = load_grid(str(item.grid), trusted)
            plan = make_plan(grid, item.grid.parent, overrides, options, force=False, absent=absent)
            print(f"  {len(plan.runs)} runs; {estimate(plan, engine, SAMPLED)}")
            if absent:
                print(f"  {_left_out(absent, grid)}")
    return 0


def _left_out(absent: dict[str, str], grid: Grid) -> str:
    reason = next(iter(absent.values())).splitlines()[0]
    return f"{len(absent) * len(grid.seeds)} runs more whose data is not here: {reason}"
