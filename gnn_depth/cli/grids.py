"""What commands that run grids share: their options, and the engine that these ask for."""

import argparse
import gc
import threading
import warnings

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import natural, positive, split_values
from gnn_depth.sweeps.engines import Engine, EngineError, dask, local
from gnn_depth.sweeps.grid import Grid, GridError
from gnn_depth.sweeps.store import ResultWarning


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of running a grid."""
    add = parser.add_argument
    add(
        "--subset",
        nargs="+",
        action="extend",
        default=[],
        metavar="AXIS=VALUE,...",
        help="run these values of an axis alone",
    )
    add("--seeds", type=positive, help="how many seeds, from 0 on; those of the file if not given")
    add("--root", default="runs", help="folder of all runs; the sweep gets a folder of its name there")
    add("--workers", type=positive, help="runs at once; one a core or a GPU if not given")
    add("--engine", choices=["local", "dask"], default="local", help="where the runs run")
    add("--address", help="of the scheduler of a Dask cluster: tcp://HOST:8786")
    add("--retries", type=natural, default=2, help="how often a run whose process died is started again")
    add("--force", action="store_true", help="archive the results that are there, and run all again")


def part(grid: Grid, options: argparse.Namespace) -> Grid:
    """The part of a grid that ``--subset`` and ``--seeds`` leave.

    Raises:
        UsageError: An axis or a value that the grid has not.
    """
    chosen: dict[str, list[str]] = {}
    try:
        for pair in options.subset:
            axis, _, values = pair.partition("=")
            if not axis or not values:
                raise UsageError(f"--subset takes AXIS=VALUE,VALUE, not {pair!r}.")
            name = grid.axis_called(axis)
            chosen.setdefault(name, []).extend(split_values(values, grid.labels_of(name)))
        return grid.subset(chosen, options.seeds)
    except GridError as error:
        raise UsageError(f"--subset: {error}") from None


def open_engine(options: argparse.Namespace) -> Engine:
    """The workers that were asked for, which begin to import at once.

    Raises:
        UsageError: They cannot be had.
    """
    if (options.engine == "dask") != bool(options.address):
        raise UsageError("--engine dask and --address tcp://HOST:PORT, of its scheduler, go together.")
    try:
        return dask(options.address) if options.engine == "dask" else local(options.workers, warm)
    except EngineError as error:
        raise UsageError(str(error)) from error


def warm() -> None:
    """What a worker imports before its first run."""
    from tqdm import tqdm

    import gnn_depth.cli.worker  # noqa: F401

    tqdm.set_lock(threading.RLock())  # its own is a semaphore, which Python would complain of when the worker is killed
    warnings.simplefilter("ignore", ResultWarning)  # the sweep says it, and once
    gc.freeze()  # the garbage of a run is looked for after it, and none of it is among the imports
