"""``gnn-depth sweep``: run a grid of configs, each once, or search for the best setting."""

import argparse
import re
import shlex
from contextlib import nullcontext
from pathlib import Path

from gnn_depth.cli import trust
from gnn_depth.cli.config import Arguments, read_arguments
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.options import Options, chosen_values, non_negative_int, positive_int
from gnn_depth.cli.outputs import plain_warnings
from gnn_depth.config_file import read_config
from gnn_depth.runs import RESULTS, on_test_set
from gnn_depth.signals import exit_code
from gnn_depth.sweeps.drive import carry_out
from gnn_depth.sweeps.grid import (
    Grid,
    GridAxis,
    GridError,
    covers,
    dotted_options,
    read_grid,
)
from gnn_depth.sweeps.plan import Plan
from gnn_depth.sweeps.pool import LocalPool, Pool, PoolError
from gnn_depth.sweeps.search import LOCK, SearchPlan, best_value
from gnn_depth.sweeps.store import ResultWarning

RUN_KEYS = {"data", "model", "trainer", "run", "plugins", "seed_everything", "ckpt_path"}
OVERRIDE = re.compile(r"--(data|model|trainer|plugins|trusted-only)([.=]|$)")
# Modules that resolve and train runs; they bring torch, so commands import them while workers do.
PRELOAD = ("gnn_depth.cli.grid_runs", "gnn_depth.cli.cost")


def main(argv: list[str]) -> int:
    """Run all unfinished runs of a grid."""
    overrides, argv = split_overrides(argv)
    options, arguments = parser().parse_args(argv), read_arguments(overrides)
    whole, folder = grid_for(options.file, arguments)
    grid = chosen_part(whole, options)
    if grid.search is not None and not options.dry_run:
        prepare_search()
    # The workers begin to import while the plan is made.
    pool_or_none = nullcontext() if options.dry_run else open_pool(options)
    with plain_warnings(ResultWarning), pool_or_none as pool:
        from gnn_depth.cli.grid_runs import plan_of

        if pool is None:
            absent: dict[str, str] = {}
            print(plan_of(grid, folder, arguments, options.root, absent=absent).listing())
            for group, reason in absent.items():
                print(f"{group}: its data is not here ({reason.splitlines()[0]})")
            return 0
        plan = plan_of(grid, folder, arguments, options.root, options.force)
        code = run_plan(plan, pool, options.retries)
        if isinstance(plan, SearchPlan):
            say_best(plan, folder, arguments)
        return code


def parser() -> Options:
    parser = Options(
        "sweep",
        "Run all unfinished runs of a grid. Options of fit, such as --trainer.max_epochs 3, apply "
        "to all runs.",
        "FILE [--dry-run] [--workers N] [--engine dask --address tcp://HOST:PORT] [--OPTION "
        "VALUE]...",
    )
    parser.add_argument(
        "file", help="the grid: a YAML file with base, axes, search, rules and seeds"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the runs and their state; run nothing"
    )
    add_options(parser)
    return parser


def add_options(parser: Options) -> None:
    """The options that `sweep` and `reproduce` share."""
    parser.add_choice_of_values("--subset", "run only these values of an axis")
    add = parser.add_argument
    add(
        "--seeds",
        type=positive_int,
        help="number of seeds, counted from 0; by default the file's seeds",
    )
    add(
        "--root",
        default="runs",
        help="folder of all runs; the sweep gets a folder of its name there",
    )
    add(
        "--workers",
        type=positive_int,
        help="runs at once; by default one per core, or per GPU if there are any",
    )
    add(
        "--engine",
        choices=["local", "dask"],
        default="local",
        help="where to run: local processes or a Dask cluster",
    )
    add("--address", help="address of a Dask cluster's scheduler: tcp://HOST:8786")
    add(
        "--retries",
        type=non_negative_int,
        default=2,
        help="how many times to restart a run whose process died",
    )
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


def grid_for(name: str, arguments: Arguments) -> tuple[Grid, Path]:
    """Read a grid file for runs with options of ``fit``; also returns the folder that its config
    files are relative to.

    Raises:
        UsageError: It is no grid, or an option would override what it varies.
    """
    grid = load_grid(name, arguments.trusted)
    folder = Path(read_config(name, labels=True).name).parent  # a shipped one is found elsewhere
    _refuse_what_is_varied(grid, folder, arguments)
    return grid, folder


def load_grid(name: str, trusted: bool | None = None) -> Grid:
    """Read a grid file, with the value of ``--trusted-only``."""
    config = read_config(name, labels=True)
    if not config.data:
        raise UsageError(f"{name} is empty: a grid has base and axes.")
    if set(config.data) <= RUN_KEYS:
        raise UsageError(
            f"{name} is the config of one run, gnn-depth fit --config {name}; a grid has base and "
            "axes."
        )
    if trusted:
        trust.refuse_unknown([config])
    try:
        return read_grid(config.data, Path(name).stem)
    except GridError as error:
        raise UsageError(f"{config.at(error.where)}: {error}") from None


def _refuse_what_is_varied(grid: Grid, folder: Path, arguments: Arguments) -> None:
    """Refuse options of the command line to which a grid gives several values: its labels would be
    wrong.

    Raises:
        UsageError: There is such an option.
    """
    varied: dict[str, str] = {}  # option -> what gives it values
    for axis in grid.axes:
        varied |= dict.fromkeys(_varied_by(axis, folder), f"the axis {axis.name}")
    for of_seed in grid.per_seed.values():
        varied |= dict.fromkeys(dotted_options(of_seed), "per_seed")
    if grid.search is not None:
        varied |= dict.fromkeys(grid.search.options, "the search")
    for word in arguments.argv:
        given = word.removeprefix("--").partition("=")[0]
        for option, source in varied.items():
            if word.startswith("--") and covers(given, option):
                raise UsageError(
                    f"--{given} would override {option}, to which {source} of the grid gives "
                    "values: leave it out and choose values with --subset, or edit the grid."
                )


def _varied_by(axis: GridAxis, folder: Path) -> list[str]:
    """The option that an axis is called by, and those that all labels set to different values."""
    of_labels = []
    for settings in axis.values.values():
        found = dotted_options(settings)
        if "config" in settings:
            of_file = read_config(str(folder / settings["config"]))
            found = {**dotted_options(of_file.data), **found}
            del found["config"]
        of_labels.append(found)
    first = of_labels[0]
    varied = []
    for name, value in first.items():
        is_set = all(name in one for one in of_labels)
        differs = is_set and any(one[name] != value for one in of_labels)
        # How long is trained is no part of what a label says, unless it is the axis.
        is_length = name.startswith("trainer.max_") and name != axis.name
        if name == axis.name or (differs and not is_length):
            varied.append(name)
    return varied


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
    try:
        if options.engine == "local":
            return LocalPool(options.workers, PRELOAD)
        from gnn_depth.sweeps.cluster import DaskPool

        return DaskPool(options.address, PRELOAD)
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise UsageError(
            f"--engine dask needs the package {error.name}: pip install 'gnn-depth[cluster]'."
        ) from error


def prepare_search() -> None:
    """Refuse a search where Optuna is not installed, and let Optuna say only what goes wrong."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise UsageError(
            "a search needs the package optuna: pip install 'gnn-depth[optuna]'."
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def say_best(plan: SearchPlan, folder: Path, arguments: Arguments) -> None:
    """Print the best setting of each study as options of ``fit``, with what its values mean."""
    from gnn_depth.cli.grid_runs import best_trials

    records = plan.store.records()
    said = False
    for study, trial, words in best_trials(plan, folder, arguments):
        values = []
        for metric in (best_value(study.metric), on_test_set(study.metric)):
            value = trial.mean(records, metric)
            if value is not None:
                values.append(f"{metric} {value:.4f}")
        where = f" ({study.combination.group})" if study.combination.labels else ""
        count, seeds = len(trial.runs), ""
        if count > 1:
            seeds = f", means of {count} seeds; the command trains the first of them"
        print(f"best of {len(study.trials)} trials{where}: {', '.join(values)}{seeds}")
        print(f"  {shlex.join(['gnn-depth', 'fit', *words])}")
        said = True
    if said:
        print(
            "Validation has chosen the setting: its validation value is the best of many and "
            "therefore too high, the test value is that of a model chosen without the test set."
        )
    else:
        print("no trial has a validation metric yet.")


def run_plan(plan: Plan, pool: Pool, retries: int, deadline: float = float("inf")) -> int:
    """Run all unfinished runs of a plan as `gnn_depth.sweeps.drive.carry_out`, and sum up.

    Returns:
        The exit code: 0, 1 if a run failed, or that of the signal that stopped the sweep.
    """
    from gnn_depth.cli.grid_runs import train_job

    try:
        plan.store.make_folder()
    except OSError as error:
        raise UsageError(
            "the folder of the sweep cannot be made, written or locked, "
            f"{str(plan.store.folder)!r} ({error.strerror}); choose another with --root."
        ) from error
    alone = plan.store.claim(LOCK) if isinstance(plan, SearchPlan) else nullcontext(True)
    try:
        with alone as mine:
            if not mine:
                raise UsageError(
                    f"another process works on the search in {str(plan.store.folder)!r}: it alone "
                    "proposes settings. Give this one another name, or another --root."
                )
            sweep = carry_out(plan, pool, train_job, retries, deadline)
    except PoolError as error:
        raise RunError(f"stopped: {error}") from error
    state = plan.state(lambda record: record.status if record else "not started")
    head = "interrupted; the same command continues the sweep" if sweep.interrupted else "done"
    folder = plan.store.folder
    print(
        f"{head}: {state}\ntable:  gnn-depth table {folder}\ncurves: tensorboard --logdir {folder}"
    )
    if sweep.interrupted:
        return exit_code(sweep.interrupted)
    return int(any(outcome.status not in RESULTS for outcome in sweep.outcomes.values()))
