"""``gnn-depth sweep``: run a grid of configs, each once, or search for the best setting."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal

from gnn_depth.cli import trust
from gnn_depth.cli.config import Arguments
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.options import chosen_values
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.config_file import read_config
from gnn_depth.ranges import Count
from gnn_depth.registry import as_written
from gnn_depth.signals import exit_code
from gnn_depth.sweeps.drive import Sweep
from gnn_depth.sweeps.grid import Grid, GridError, axis_called, read_grid
from gnn_depth.sweeps.pool import LocalPool, Pool, PoolError
from gnn_depth.sweeps.slurm import submit
from gnn_depth.sweeps.store import ResultWarning

# Resolves and trains runs; it brings torch, so commands import it while workers do.
PRELOAD = ("gnn_depth.cli.grid_runs",)
SEARCH = "search"  # the claim of the process that proposes settings


def main(
    arguments: Arguments,
    file: str,
    *,
    dry_run: bool = False,
    available: bool = False,
    sbatch: str | None = None,
    subset: list[str] | None = None,
    seeds: Count | None = None,
    root: str = "runs",
    workers: Count | None = None,
    engine: Literal["local", "dask", "slurm"] = "local",
    address: str | None = None,
    force: bool = False,
) -> int:
    """Run all unfinished runs of a grid. Options of fit, such as --trainer.max_epochs 3, apply to
    all runs.

    Args:
        file: The grid: a YAML file with base, axes, search, rules and seeds.
        dry_run: Print the runs and their state; run nothing.
        available: Skip runs whose data is not on this machine.
        sbatch: Options of a SLURM job array: --sbatch='--array=1-8 --cpus-per-task=4'.
        subset: Run only these values of an axis: AXIS=VALUE or AXIS=VALUE,VALUE.
        seeds: Number of seeds, counted from 0; by default the file's seeds.
        root: Folder of all runs, by default runs; the sweep gets a folder of its name there.
        workers: Runs at once; by default one per core, or per GPU if there are any.
        engine: Where to run: local processes (default), or jobs of a cluster.
        address: Address of a Dask cluster's scheduler: tcp://HOST:8786.
        force: Archive existing results, and run all again.
    """
    grid = chosen_part(load_grid(file, arguments.trusted), subset, seeds)
    is_here = not dry_run and engine != "slurm"
    # The workers begin to import while the plan is made.
    opened = open_pool(engine, address, workers) if is_here else nullcontext()
    with plain_warnings(ResultWarning), opened as pool:
        from gnn_depth.cli.grid_runs import plan_of, train_job

        plan = plan_of(grid, arguments, root, dry_run or available)
        if dry_run:
            print(plan.listing())
            return 0
        if not plan.size:
            raise UsageError(f"no runs are left in {file}: their data is not on this machine.")
        if pool is None and (grid.search is not None or not sbatch):
            raise UsageError(
                "--engine slurm submits a grid without a search as a job array, whose options "
                "--sbatch gives: --sbatch='--array=1-8 --cpus-per-task=4 --time=4:00:00'."
            )
        with plan.store.claim(SEARCH) if grid.search else nullcontext(True) as mine:
            if not mine:
                raise UsageError(
                    f"another process works on the search in {str(plan.store.folder)!r}: it alone "
                    "proposes settings. Give this one another name, or another --root."
                )
            with plan.store.claim("first"):  # files can be written and locked there
                plan.begin(force)
            if pool is None:
                print(submit(plan.store, str(sbatch), arguments.words))
                return 0
            driven = Sweep(plan, pool, train_job)
            try:
                driven.run()
            except PoolError as error:
                raise RunError(f"stopped: {error}") from error
    head, code = "done", int(driven.failed > 0)
    if driven.interrupted:
        head = "interrupted; the same command continues the sweep"
        code = exit_code(driven.interrupted)
    print(f"{head}: {plan.state()}\ntable:  gnn-depth table {plan.store.folder}")
    for line in plan.best():
        print(line)
    return code


def load_grid(name: str, trusted: bool | None = None) -> Grid:
    """Read a grid file, with the value of ``--trusted-only``."""
    config = read_config(name, labels=True)
    if trusted:
        trust.refuse_unknown([config])
    try:
        grid = replace(read_grid(config.data, Path(name).stem), folder=Path(config.name).parent)
        if grid.search is None:
            return grid
        from gnn_depth.sweeps.search import read_search

        return replace(grid, search=read_search(grid.search, grid.axes))
    except GridError as error:
        raise UsageError(f"{config.name}: {error}") from None


def chosen_part(grid: Grid, subset: Sequence[str] | None, seeds: int | None) -> Grid:
    """The part of a grid that ``--subset`` and ``--seeds`` choose."""
    chosen = chosen_values(
        "--subset",
        subset or (),
        lambda word: [as_written(label) for label in grid.axes[axis_called(word, grid.axes)]],
    )
    return grid.subset(chosen, seeds)


def open_pool(engine: str, address: str | None, workers: int | None) -> Pool:
    """The requested workers; local ones start importing immediately."""
    if (engine == "dask") != bool(address):
        raise UsageError(
            "--engine dask and --address tcp://HOST:PORT (of its scheduler) must be given together."
        )
    if address is None:
        return LocalPool(workers, PRELOAD)
    from gnn_depth.sweeps.cluster import DaskPool

    return DaskPool(address, PRELOAD)
