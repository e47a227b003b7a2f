"""``gnn-depth sweep``: run a grid of configs, each once, or search for the best setting."""

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from jsonargparse.typing import PositiveInt

from gnn_depth.cli import trust
from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.options import Options, chosen_values
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.config_file import read_config
from gnn_depth.signals import exit_code
from gnn_depth.sweeps.drive import Sweep
from gnn_depth.sweeps.grid import Grid, GridError, read_grid
from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.pool import LocalPool, Pool, PoolError
from gnn_depth.sweeps.slurm import submit
from gnn_depth.sweeps.store import ResultWarning

OVERRIDE = re.compile(r"--(data|model|trainer|plugins|trusted-only|init_from)([.=]|$)")
# Resolves and trains runs; it brings torch, so commands import it while workers do.
PRELOAD = ("gnn_depth.cli.grid_runs",)
SEARCH = "search"  # the claim of the process that proposes settings


def main(argv: list[str]) -> int:
    """Run all unfinished runs of a grid."""
    overrides, words = split_overrides(argv)
    options, arguments = parser().parse_args(words), read_arguments(overrides)
    grid = chosen_part(load_grid(options.file, arguments.trusted), options)
    is_here = not options.dry_run and options.engine != "slurm"
    # The workers begin to import while the plan is made.
    with plain_warnings(ResultWarning), open_pool(options) if is_here else nullcontext() as pool:
        from gnn_depth.cli.grid_runs import plan_of

        plan = plan_of(options.file, grid, arguments, options.root, options.dry_run)
        if options.dry_run:
            print(plan.listing())
            return 0
        if pool is not None:
            return run_plan(plan, pool, options.force)
        if grid.search is not None or not options.sbatch:
            raise UsageError(
                "--engine slurm submits a grid without a search as a job array, whose options "
                "--sbatch gives: --sbatch='--array=1-8 --cpus-per-task=4 --time=4:00:00'."
            )
        _begin(plan, options.force)
        print(submit(plan.store, options.sbatch, argv))
        return 0


def parser() -> Options:
    parser = Options(
        "sweep",
        "Run all unfinished runs of a grid. Options of fit, such as --trainer.max_epochs 3, apply "
        "to all runs.",
        "FILE [--dry-run] [--workers N] [--engine dask --address tcp://HOST:PORT] [--OPTION "
        "VALUE]...",
    )
    add = parser.add_argument
    add("file", help="the grid: a YAML file with base, axes, search, rules and seeds")
    add("--dry-run", action="store_true", help="print the runs and their state; run nothing")
    add("--sbatch", help="options of a SLURM job array: --sbatch='--array=1-8 --cpus-per-task=4'")
    add_options(parser, ["local", "dask", "slurm"])
    return parser


def add_options(parser: Options, engines: Iterable[str] = ("local", "dask")) -> None:
    """The options that `sweep` and `reproduce` share."""
    parser.add_choice_of_values("--subset", "run only these values of an axis")
    add = parser.add_argument
    seeds = "number of seeds, counted from 0; by default the file's seeds"
    add("--seeds", type=PositiveInt, help=seeds)
    root = "folder of all runs, by default runs; the sweep gets a folder of its name there"
    add("--root", default="runs", help=root)
    workers = "runs at once; by default one per core, or per GPU if there are any"
    add("--workers", type=PositiveInt, help=workers)
    engine = "where to run: local processes (default), or jobs of a cluster"
    add("--engine", choices=engines, default="local", help=engine)
    add("--address", help="address of a Dask cluster's scheduler: tcp://HOST:8786")
    add("--force", action="store_true", help="archive existing results, and run all again")


def split_overrides(argv: list[str]) -> tuple[list[str], list[str]]:
    """The options of ``fit`` among the arguments, with their values, and the other arguments."""
    overrides, rest, remaining = [], [], list(argv)
    while remaining:
        word = remaining.pop(0)
        if not OVERRIDE.match(word):
            rest.append(word)
            continue
        overrides.append(word)
        is_switch = word == trust.FLAG and remaining[:1] not in (["true"], ["false"])
        if "=" not in word and remaining and not remaining[0].startswith("--") and not is_switch:
            overrides.append(remaining.pop(0))
    return overrides, rest


def load_grid(name: str, trusted: bool | None = None) -> Grid:
    """Read a grid file, with the value of ``--trusted-only``."""
    config = read_config(name, labels=True)
    if trusted:
        trust.refuse_unknown([config])
    try:
        with extra("optuna"):
            return read_grid(config.data, Path(name).stem)
    except GridError as error:
        raise UsageError(f"{config.name}: {error}") from None


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Name the extra that has a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"this needs the package {error.name}: pip install 'gnn-depth[{name}]'."
        ) from error


def chosen_part(grid: Grid, options: argparse.Namespace) -> Grid:
    """The part of a grid that ``--subset`` and ``--seeds`` choose."""
    try:
        chosen = chosen_values("--subset", options.subset, grid.axis_called, grid.labels_of)
        return grid.subset(chosen, options.seeds)
    except GridError as error:
        raise UsageError(f"--subset: {error}") from None


def open_pool(options: argparse.Namespace) -> Pool:
    """The requested workers; local ones start importing immediately."""
    if (options.engine == "dask") != bool(options.address):
        raise UsageError(
            "--engine dask and --address tcp://HOST:PORT (of its scheduler) must be given together."
        )
    if options.engine == "local":
        return LocalPool(options.workers, PRELOAD)
    with extra("cluster"):
        from gnn_depth.sweeps.cluster import DaskPool
    return DaskPool(options.address, PRELOAD)


def _begin(plan: Plan, force: bool) -> None:
    try:
        with plan.store.claim("first"):  # files can be written and locked there
            plan.begin(force)
    except OSError as error:
        raise UsageError(
            f"{plan.store.folder} cannot be used ({error}): give another --root."
        ) from error


def run_plan(plan: Plan, pool: Pool, force: bool) -> int:
    """Run all unfinished runs of a plan, and print the state of all.

    Returns:
        The exit code: 0, 1 if a run failed, or that of the signal that stopped the sweep.
    """
    from gnn_depth.cli.grid_runs import train_job

    with plan.store.claim(SEARCH) if plan.grid.search else nullcontext(True) as mine:
        if not mine:
            raise UsageError(
                f"another process works on the search in {str(plan.store.folder)!r}: it alone "
                "proposes settings. Give this one another name, or another --root."
            )
        _begin(plan, force)
        sweep = Sweep(plan, pool, train_job)
        try:
            sweep.run()
        except PoolError as error:
            raise RunError(f"stopped: {error}") from error
    head = "interrupted; the same command continues the sweep" if sweep.interrupted else "done"
    print(f"{head}: {plan.state()}\ntable:  gnn-depth table {plan.store.folder}")
    for line in plan.best():
        print(line)
    if sweep.interrupted:
        return exit_code(sweep.interrupted)
    return int(sweep.failed > 0)
