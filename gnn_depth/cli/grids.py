"""What commands that run grids share: their options, and the engine that these ask for."""

import argparse
import contextlib
import gc
import signal
from collections.abc import Iterator
from typing import Any

from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.options import natural, positive
from gnn_depth.sweeps.engines import Engine, EngineError, dask, local
from gnn_depth.sweeps.grid import Grid, GridError


class Terminated(KeyboardInterrupt):
    """SIGTERM, answered as Ctrl-C is."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of running a grid."""
    add = parser.add_argument
    add("--subset", nargs="+", metavar="AXIS=VALUE,...", help="run these values of an axis alone")
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
    chosen = {}
    for pair in options.subset or ():
        axis, equals, values = pair.partition("=")
        if not (axis and equals and values):
            raise UsageError(f"--subset takes AXIS=VALUE,VALUE, not {pair!r}.")
        chosen[axis] = values.split(",")
    try:
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
    import gnn_depth.cli.worker  # noqa: F401

    gc.freeze()  # the garbage of a run is looked for after it, and none of it is among the imports


@contextlib.contextmanager
def terminated() -> Iterator[None]:
    """Raise :class:`Terminated` at SIGTERM, while it lasts."""

    def handler(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
