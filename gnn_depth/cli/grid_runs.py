"""Resolve a combination of a grid to a config, and train one run of a sweep."""

import json
import threading
import traceback
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import lightning as L
import torch
import torch.utils.tensorboard  # imported once, before the processes of all runs are forked
from tqdm import tqdm

from gnn_depth.builder import build
from gnn_depth.cli import trust
from gnn_depth.cli.assemble import CommandLineInterface, resolve
from gnn_depth.cli.catalogue import catalogue
from gnn_depth.cli.config import Arguments, for_model
from gnn_depth.cli.errors import TRACEBACK, RunError, UsageError, explained
from gnn_depth.cli.run import train_in_command
from gnn_depth.config_file import INLINE, Source, read_config
from gnn_depth.part_specs import GIVEN_BY_DATA
from gnn_depth.runs import Origin
from gnn_depth.sweeps.grid import Combination, Grid, covers, dotted_options
from gnn_depth.sweeps.plan import Plan, PlanError, check_alone, check_distinct
from gnn_depth.sweeps.store import PlannedRun, Store
from gnn_depth.sweeps.worker import RunFailed
from gnn_depth.training.identity import identity
from gnn_depth.training.loggers import quiet
from gnn_depth.training.models import build_model
from gnn_depth.training.recorder import RunRecorder
from gnn_depth.training.run import check_training
from gnn_depth.training.tasks import Task

#: What is kept of data: its checksum, and what a model needs to know of it.
FACTS = ("checksum", "schema", *GIVEN_BY_DATA.values())


class AbsentDataError(UsageError):
    """The data of a run is not on this machine, or cannot be used."""


class Resolver:
    """Resolves command lines of ``fit`` with one parser: building it takes longer than using it."""

    def __init__(self, plugins: Iterable[str]) -> None:
        # What a grid names starts from its own defaults: its recorded runs did.
        self._known = replace(catalogue([*plugins]), dropped=None)
        self._data: dict[str, SimpleNamespace] = {}

    def resolve(self, arguments: Arguments) -> dict[str, Any]:
        """The resolved config of a command line, as it would be saved in the run's folder."""
        with explained():
            return resolve(arguments, for_model(self._known, "fit", arguments))

    def check(self, config: dict[str, Any]) -> tuple[str | None, Task | None]:
        """The checksum of the data of a resolved config, and the task of its model; refuses one
        that cannot be built or trained. A class of the user's has no task, and is not built.

        Raises an AbsentDataError if the data is missing, damaged or refuses its options.
        """
        key = json.dumps(config["data"], sort_keys=True)
        if key not in self._data:  # equal configs are read once
            try:
                # Data that draws from it is then the same in every order.
                L.seed_everything(0, verbose=False)
                with quiet():
                    module = build("data", config["data"])
                    facts = {name: getattr(module, name, None) for name in FACTS}
            except ValueError as error:
                raise AbsentDataError(f"{error}\nOr leave such runs out with --subset.") from error
            self._data[key] = SimpleNamespace(**facts)
        data = self._data[key]
        if "class_path" in config["model"]:
            return data.checksum, None
        with quiet(), explained(), torch.random.fork_rng([]):
            RunRecorder(**config["run"])
            model = build_model(config["model"], data)
            check_training(config["trainer"], model)
        return data.checksum, model.task


def plan_of(grid: Grid, arguments: Arguments, root: str, skips_absent: bool = False) -> Plan:
    """Resolve all runs of a grid, with options of ``fit`` for all.

    Groups whose data is not here are an error, or are named and left out.
    """
    sources: list[Source] = []
    for combination in grid.combinations():
        sources += line_of(combination, grid, arguments).sources
    if arguments.trusted:
        trust.refuse_unknown(sources)
    resolver = Resolver(Arguments(sources, arguments.flags).plugins)

    def runs_of(combination: Combination, place: int) -> list[PlannedRun]:
        """The runs of a combination, one for each seed; the first has this place in the grid."""
        group = combination.group
        runs: list[PlannedRun] = []
        try:
            for seed in grid.seeds:
                if not runs or grid.per_seed:
                    with_seed = grid.with_seed(combination, seed)
                    found = resolver.resolve(line_of(with_seed, grid, arguments))
                    sha256, _ = resolver.check(found)
                    check_alone(group, found)
                config = found | {"seed_everything": seed}
                run = PlannedRun(
                    group,
                    seed,
                    identity(config, sha256),
                    combination.labels,
                    config,
                    sha256,
                    place + len(runs),
                    tuple(grid.per_seed),
                )
                runs.append(run)
        except UsageError as error:
            if not (skips_absent and isinstance(error, AbsentDataError)):
                raise PlanError(f"grid {grid.name}, {group}: {error}") from error
            print(f"{group}: its data is not here ({str(error).splitlines()[0]})")
        return runs

    store = Store(root, grid.name)
    if grid.search is not None:
        from gnn_depth.sweeps.search import make_search_plan

        return make_search_plan(grid, runs_of, store, resolver.check)
    runs: list[PlannedRun] = []
    for combination in grid.combinations():
        runs += runs_of(combination, len(runs))
    check_distinct(runs)
    return Plan(grid, runs, store)


def line_of(combination: Combination, grid: Grid, arguments: Arguments) -> Arguments:
    """The command line of a combination: its options and sections, in order, become arguments.

    Config files are relative to the folder of the grid; the arguments override the combination, and
    that overrides the base.

    Raises:
        PlanError: An argument would change what the combination sets, so that its labels would be
            wrong.
    """
    layers = [*(read_config(str(grid.folder / name)) for name in grid.base), *arguments.sources]
    options: list[tuple[str, Any]] = []
    for settings in combination.settings:
        for key, value in settings.items():
            if key == "config":
                layers.append(read_config(str(grid.folder / str(value))))
            elif key == "plugins":
                layers.append(Source(str(grid.folder / "grid"), {key: value}))
            else:
                options.append((key, value))
    set_here = [name for key, value in options for name in dotted_options({key: value})]
    for (given, _), option in product(arguments.flags, set_here):
        # How long is trained is no part of what a label says.
        if covers(given, option) and not option.startswith("trainer.max_"):
            raise PlanError(
                f"--{given} would override {option}, which the grid sets for {combination.group}: "
                "leave it out and choose values with --subset, or edit the grid."
            )
    return Arguments(layers, [*options, *arguments.flags])


def train_job(run: PlannedRun, origin: Origin) -> None:
    """Train one run of a sweep as ``gnn-depth fit`` would, or raise RunFailed.

    It is called in a process of its own.
    """
    # Its own is a semaphore, which Python reports as leaked if the process is killed.
    tqdm.set_lock(threading.RLock())
    config = run.config
    try:
        with quiet(), explained():
            cli = CommandLineInterface("fit", Arguments([Source(INLINE, config)]))
            if identity(config, run.data_sha256) != run.identity:
                raise UsageError(
                    "a plugin was edited after the sweep had been planned, or this worker has "
                    "another version of gnn-depth or of a plugin than the sweep has; start the "
                    "sweep again."
                )
            train_in_command(cli, origin)
    except (UsageError, RunError) as error:
        # The user's code or a library failed: the run's output shows all calls.
        if TRACEBACK in str(error):
            traceback.print_exception(error.__cause__)
        raise RunFailed(str(error)) from error
