"""The plan of a sweep: all runs of a grid, resolved before anything runs, and the state of each."""

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gnn_depth._version import __version__
from gnn_depth.sweeps.grid import Combination, Grid, Label
from gnn_depth.sweeps.store import Record, RunKey, Store, StoreError

# A combination -> its resolved config, and the checksum of its data.
Resolve: TypeAlias = Callable[[Combination], tuple[dict[str, Any], str]]
# These two -> a checksum that runs with equal results share.
Identity: TypeAlias = Callable[[dict[str, Any], str], str]
# A combination and its place in the grid -> its runs: see planned_runs.
RunsOf: TypeAlias = Callable[[Combination, int], "list[PlannedRun]"]


class PlanError(ValueError):
    """The runs of a grid contradict each other, or cannot be part of a sweep."""


class AbsentDataError(PlanError):
    """The data of a run is not on this machine, or cannot be used."""


@dataclass(frozen=True)
class PlannedRun:
    """A run of a grid, ready to start."""

    key: RunKey
    labels: dict[str, Label]  # on every axis
    config: dict[str, Any]  # resolved
    data_sha256: str  # checksum of its data
    place: int = 0  # in the order of the grid
    per_seed: tuple[str, ...] = ()  # options that change with the seed


@dataclass
class Plan:
    """All runs of a grid, and the store of their results."""

    grid: Grid
    runs: list[PlannedRun]
    store: Store

    @property
    def size(self) -> int:
        """The number of runs, those of a search among them that are not known yet."""
        return len(self.runs)

    def begin(self, force: bool) -> None:
        """Refuse results of another version; ``force`` archives these and those of the plan."""
        if force:
            self.archive()
        self.store.check_version(__version__)

    def next_runs(self, records: Mapping[str, Record]) -> list[PlannedRun]:
        """Further runs, given what came of those before, by identity; a grid has none."""
        return []

    def best(self) -> list[str]:
        """Lines about the best setting of a search."""
        return []

    def found(self) -> list[Record]:
        """The records of this plan's runs."""
        records = self.store.records()
        found = [records.get(run.key.identity) for run in self.runs]
        return [record for record in found if record]

    def state(self) -> str:
        """The number of runs in each state: ``3 finished, 1 failed``."""
        states = self._states(self.runs)
        states[pending(None)] += self.size - len(self.runs)
        return _written(states)

    def listing(self) -> str:
        """Every group of runs, and the number of its finished runs."""
        shape = [f"{len(axis)} {name}" for name, axis in self.grid.axes.items()]
        if self.grid.search is not None:
            shape.append(f"{self.grid.search.trials} trials")
        shape.append(f"{len(self.grid.seeds)} seeds")
        size = f"{self.size} runs of {' x '.join(shape)}"
        lines = [f"sweep {self.grid.name}: {size}, in {self.store.folder}"]
        groups: dict[str, list[PlannedRun]] = {}
        for run in self.runs:
            groups.setdefault(run.key.group, []).append(run)
        width = max(map(len, groups), default=0)
        for name, runs in groups.items():
            lines.append(f"  {name:<{width}}  {_written(self._states(runs))}")
        return "\n".join([*lines, f"in all: {self.state()}"])

    def _states(self, runs: Iterable[PlannedRun]) -> Counter[str]:
        records = self.store.records()
        return Counter(pending(records.get(run.key.identity)) for run in runs)

    def archive(self) -> None:
        """Archive the results of these runs, and those of other versions."""
        planned = {run.key.identity for run in self.runs}
        for record in self.store.records().values():
            if record.identity not in planned and record.version == __version__:
                continue
            with self.store.claim(record.identity) as mine:
                if not mine:
                    raise StoreError(
                        f"{str(record.folder)!r} is being worked on by another process; stop it "
                        "first."
                    )
                self.store.archive(record)


def make_plan(grid: Grid, runs_of: RunsOf, store: Store, absent: dict[str, str] | None) -> Plan:
    """Resolve all runs of a grid.

    Given a dictionary of the absent, groups whose data is not here (AbsentDataError) are left out,
    and noted there with the reason.
    """
    runs: list[PlannedRun] = []
    for combination in grid.combinations():
        try:
            runs += runs_of(combination, len(runs))
        except AbsentDataError as error:
            skip_missing_data(combination, error, absent)
    check_distinct(runs)
    return Plan(grid, runs, store)


def check_distinct(runs: Iterable[PlannedRun]) -> None:
    """Refuse runs that differ in their labels alone."""
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.key.identity, run)
        if other is not run:
            raise PlanError(
                f"{other.key.label!r} and {run.key.label!r} are the same run: the option in which "
                "they differ has no effect, or is also set on the command line, under per_seed or "
                "by a search. Exclude one of them by a rule with skip: true."
            )


def skip_missing_data(
    combination: Combination, error: AbsentDataError, absent: dict[str, str] | None
) -> None:
    """Note among the absent that a combination has no data; without them this is an error."""
    if absent is None:
        raise AbsentDataError(f"{error}\nOr leave such runs out with --subset.") from error
    absent[combination.group] = str(error)


def planned_runs(
    grid: Grid, resolve: Resolve, identity: Identity, combination: Combination, place: int
) -> list[PlannedRun]:
    """The runs of a combination, one for each seed; the first has this place in the grid."""
    resolved = None
    runs = []
    for number, seed in enumerate(grid.seeds, start=place):
        if resolved is None or grid.per_seed:
            resolved = resolve(grid.with_seed(combination, seed))
            _check_alone(combination, resolved[0])
        config = copy.deepcopy(resolved[0]) | {"seed_everything": seed}
        key = RunKey(combination.group, seed, identity(config, resolved[1]))
        options = tuple(grid.per_seed.get(seed, ()))
        runs.append(PlannedRun(key, combination.labels, config, resolved[1], number, options))
    return runs


def _check_alone(combination: Combination, config: dict[str, Any]) -> None:
    """Refuse options that do not work in a sweep, where every run is a single process."""
    trainer = config["trainer"]
    if trainer.get("devices") not in ("auto", 1, "1") or trainer.get("num_nodes", 1) != 1:
        raise PlanError(
            f"{combination.group}: each run of a sweep is one process on one device, and "
            f"trainer.devices is {trainer.get('devices')}; several runs at once use the other "
            "devices."
        )
    if trainer.get("fast_dev_run") or config.get("ckpt_path"):
        key = "ckpt_path" if config.get("ckpt_path") else "trainer.fast_dev_run"
        raise PlanError(
            f"{combination.group}: {key} is for a single fit: the runs of a sweep start afresh and "
            "keep their results."
        )


def _written(states: Counter[str]) -> str:
    return ", ".join(f"{count} {state}" for state, count in states.items() if count)


def pending(record: Record | None) -> str:
    """The state of a run: that it is to run, or how it has ended."""
    return "to run" if record is None else record.status
