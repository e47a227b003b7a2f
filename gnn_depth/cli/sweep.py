"""``gnn-depth sweep``: every run of a grid, once."""

import re
from pathlib import Path

from gnn_depth.cli import trust
from gnn_depth.cli.errors import UsageError
from gnn_depth.cli.files import read
from gnn_depth.cli.grids import add_options, open_engine, part
from gnn_depth.cli.options import Options
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.sweeps.grid import Grid, GridError
from gnn_depth.sweeps.grid_file import read_grid
from gnn_depth.sweeps.store import ResultWarning

RUN_KEYS = {"data", "model", "trainer", "run", "plugins", "seed_everything", "ckpt_path"}
OVERRIDE = re.compile(r"--(data|model|trainer|plugins|trusted-only)([.=]|$)")


def main(words: list[str]) -> int:
    """Run what is missing of a grid, and return the exit code: 0, 1 if a run failed, that of a signal that stopped it.

    Raises:
        UsageError: Something that was asked for does not exist or does not fit.
    """
    overrides, words = split_overrides(words)
    options = parser().parse_args(words)
    grid, folder = part(load_grid(options.file, trust.take(overrides)[0]), options), Path(options.file).parent
    if options.dry_run:
        from gnn_depth.cli.plans import make_plan

        with plain_warnings(ResultWarning):
            print(make_plan(grid, folder, overrides, options, force=False).listing())
        return 0
    with plain_warnings(ResultWarning), open_engine(options) as engine:  # workers import while this process does
        from gnn_depth.cli.plans import carry_out, make_plan

        plan = make_plan(grid, folder, overrides, options, options.force)
        return carry_out(plan, engine, options.retries)


def parser() -> Options:
    parser = Options(
        "sweep",
        "Run what is missing of a grid of runs. Any option of fit, such as --trainer.max_epochs 3, is for all of them.",
        "FILE [--dry-run] [--workers N] [--engine dask --address tcp://HOST:PORT] [--OPTION VALUE]...",
    )
    parser.add_argument("file", help="the grid: a YAML file with base, axes, rules and seeds")
    parser.add_argument("--dry-run", action="store_true", help="print the runs and what is done already; run nothing")
    add_options(parser)
    return parser


def split_overrides(words: list[str]) -> tuple[list[str], list[str]]:
    """The options of ``fit`` among the words, with their values, and the other words."""
    overrides, rest, remaining = [], [], list(words)
    while remaining:
        word = remaining.pop(0)
        if not OVERRIDE.match(word):
            rest.append(word)
            continue
        overrides.append(word)
        if "=" not in word and remaining and not remaining[0].startswith("--"):
            overrides.append(remaining.pop(0))
    return overrides, rest


def load_grid(name: str, trusted: bool | None = None) -> Grid:
    """Read a grid file.

    Args:
        name: The file.
        trusted: What was said of ``--trusted-only``; None for nothing.

    Raises:
        UsageError: There is no such file, or something in it is wrong or not to be trusted; file and line are named.
    """
    config = read(name, labels=True)
    if not config.data:
        raise UsageError(f"{name} is empty: a grid has base and axes.")
    if set(config.data) <= RUN_KEYS:
        raise UsageError(f"{name} is the config of one run, gnn-depth fit --config {name}; a grid has base and axes.")
    trust.check([config], trusted)
    try:
        return read_grid(config.data, Path(name).stem)
    except GridError as error:
        raise UsageError(f"{config.at(error.where)}: {error}") from None
