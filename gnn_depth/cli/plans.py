"""Plans: all runs of a grid and the folder of their results; how they are made and carried out."""

import argparse
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gnn_depth._version import __version__
from gnn_depth.cli.errors import RunError, UsageError
from gnn_depth.cli.quiet import without_notes
from gnn_depth.cli.resolve import PlannedRun, resolve_all
from gnn_depth.cli.words import split
from gnn_depth.cli.worker import work
from gnn_depth.runs import RESULTS
from gnn_depth.signals import exit_code
from gnn_depth.sweeps.drive import Sweep, Tally, stop_file
from gnn_depth.sweeps.engines import Engine, EngineError
from gnn_depth.sweeps.grid import Grid
from gnn_depth.sweeps.live import Live
from gnn_depth.sweeps.store import Record, Store, StoreError
from gnn_depth.sweeps.summary import write_summary
from gnn_depth.sweeps.task import Task


@dataclass(frozen=True)
class Plan:
    """All runs of a grid, resolved, and where their results are kept."""

    grid: Grid
    runs: list[PlannedRun]
    store: Store

    def records(self) -> dict[str, Record]:
        """What is there of them, by identity."""
        return self.store.records()

    def found(self) -> list[Record]:
        """Those that have been begun."""
        records = self.records()
        return [records[run.place.identity] for run in self.runs if run.place.identity in records]

    def state(self, say: Callable[[Record | None], str]) -> str:
        """How many runs are in which state: ``3 finished, 1 failed``."""
        return _counted(self.runs, self.records(), say)

    def listing(self) -> str:
        """Every group of runs, and how many of it are done."""
        shape = [*(f"{len(axis.values)} {axis.name}" for axis in self.grid.axes), f"{len(self.grid.seeds)} seeds"]
        groups: dict[str, list[PlannedRun]] = defaultdict(list)
        for run in self.runs:
            groups[run.place.group].append(run)
        records, width = self.records(), max(map(len, groups))
        rows = [f"  {name:<{width}}  {_counted(runs, records, _todo)}" for name, runs in groups.items()]
        head = f"sweep {self.grid.name}: {len(self.runs)} runs of {' x '.join(shape)}, in {self.store.folder}"
        return "\n".join([head, *rows, f"in all: {_counted(self.runs, records, _todo)}"])


def make_plan(
    grid: Grid,
    folder: Path,
    overrides: list[str],
    options: argparse.Namespace,
    force: bool,
    absent: dict[str, str] | None = None,
) -> Plan:
    """Resolve all runs of a grid, and look at what is done.

    Args:
        grid: The grid.
        folder: Where its config files are sought.
        overrides: Options of ``fit`` for all runs.
        options: As ``grids.add_options`` has them.
        force: Whether results that are there are archived.
        absent: Where it is given, groups whose data is not here are left out and noted in it, with the reason.

    Raises:
        UsageError: Something that was asked for does not exist or does not fit.
    """
    with without_notes():
        runs = resolve_all(grid, folder, split(overrides), absent)
    store = Store(options.root, grid.name)
    try:
        if force:
            _archive(runs, store)
        store.check_version(__version__)
    except (StoreError, OSError) as error:
        raise UsageError(str(error)) from error
    return Plan(grid, runs, store)


def carry_out(plan: Plan, engine: Engine, retries: int, deadline: float = float("inf")) -> int:
    """Run what is missing, show how it goes, and say what came of it.

    Args:
        plan: All runs.
        engine: The workers.
        retries: How often a run whose process died is started again.
        deadline: No run starts after this reading of the monotonic clock.

    Returns:
        The exit code: 0, 1 if a run failed, that of the signal if one stopped it.

    Raises:
        UsageError: The folder of the results cannot be written.
        RunError: The engine is lost.
    """
    _check_writable(plan.store)
    records = plan.records()
    done = {identity for identity, record in records.items() if record.is_result}
    todo = [run for run in plan.runs if run.place.identity not in done]
    try:
        tally = _run(plan, todo, engine, retries, deadline)
    except EngineError as error:
        raise RunError(f"stopped: {error}") from error
    print(_report(plan, tally))
    if tally.interrupted:
        return exit_code(tally.interrupted)
    return 1 if any(outcome.status not in RESULTS for outcome in tally.outcomes.values()) else 0


def _check_writable(store: Store) -> None:
    try:
        store.make_folder()
    except OSError as error:
        raise UsageError(
            f"the folder of the sweep cannot be made, written or locked, {str(store.folder)!r} ({error.strerror}); "
            "choose another with --root."
        ) from error


def _run(plan: Plan, todo: list[PlannedRun], engine: Engine, retries: int, deadline: float) -> Tally:
    with (
        stop_file(plan.store, uuid.uuid4().hex) as stop,
        Live(len(plan.runs), len(plan.runs) - len(todo), engine.workers, plan.grid.metric) as live,
    ):
        tasks = [_task(run, plan.store, retries, stop) for run in todo]
        summaries = _Summaries(plan, live)
        return Sweep(work, engine, plan.store, live, plan.grid.metric, deadline, summaries.update).run(tasks)


def _task(run: PlannedRun, store: Store, retries: int, stop: Path) -> Task:
    return Task(
        root=str(store.root.absolute()),
        sweep=store.name,
        place=run.place,
        labels=run.labels,
        config=run.config,
        data_sha256=run.data_sha256,
        command=(Path(sys.argv[0]).name, *sys.argv[1:]),
        retries=retries,
        stop=str(stop.absolute()),
    )


class _Summaries:
    """The mean curves of groups, written when all runs of a group are there."""

    def __init__(self, plan: Plan, live: Live) -> None:
        self._store, self._live = plan.store, live
        self._places = defaultdict(list)
        for run in plan.runs:
            self._places[run.place.group].append(run.place)

    def update(self, task: Task) -> None:
        """A run has ended: see whether its group is complete."""
        group = task.place.group
        records = [self._store.find(place) for place in self._places[group]]
        folders = [record.folder for record in records if record and record.is_result]
        if len(folders) < len(records) or len(records) < 2:
            return
        try:
            write_summary(self._store.folder, self._store.place(task.place).parent.name, folders)
        except Exception as error:  # the runs themselves are safe, and others are under way
            self._live.say(f"no summary of {group}: {error}")


def _archive(runs: list[PlannedRun], store: Store) -> None:
    """Move the results of these runs out of the way, and those of other versions."""
    wanted = {run.place.identity for run in runs}
    for record in store.records().values():
        if record.identity not in wanted and record.version == __version__:
            continue
        with store.claim(record.identity) as mine:
            if not mine:
                raise StoreError(f"{str(record.folder)!r} is being worked on by another process; stop it first.")
            store.archive(record)


def _counted(runs: list[PlannedRun], records: dict[str, Record], say: Callable[[Record | None], str]) -> str:
    counts = Counter(say(records.get(run.place.identity)) for run in runs)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _todo(record: Record | None) -> str:
    if record is None:
        return "to run"
    return record.status if record.is_result else f"to run again ({record.status})"


def _report(plan: Plan, tally: Tally) -> str:
    state = plan.state(lambda record: record.status if record else "not started")
    head = "interrupted; the same command goes on" if tally.interrupted else "done"
    folder = plan.store.folder
    return f"{head}: {state}\ntable:  gnn-depth table {folder}\ncurves: tensorboard --logdir {folder}"
