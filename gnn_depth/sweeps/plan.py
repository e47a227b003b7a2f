"""The plan of a sweep: all runs of a grid, resolved before anything runs, and the state of each."""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gnn_depth._version import __version__
from gnn_depth.sweeps.grid import Combination, Grid, Label
from gnn_depth.sweeps.store import Record, RunKey, Store, StoreError


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


@dataclass(frozen=True)
class Plan:
    """All runs of a grid, and the store of their results."""

    grid: Grid
    runs: list[PlannedRun]
    store: Store

    def found(self) -> list[Record]:
        """The records of this plan's runs."""
        records = self.store.records()
        found = [records.get(run.key.identity) for run in self.runs]
        return [record for record in found if record]

    def state(self, describe: Callable[[Record | None], str]) -> str:
        """The number of runs in each state: ``3 finished, 1 failed``."""
        return _counted(self.runs, self.store.records(), describe)

    def listing(self) -> str:
        """Every group of runs, and the number of its finished runs."""
        shape = [f"{len(axis.values)} {axis.name}" for axis in self.grid.axes]
        shape.append(f"{len(self.grid.seeds)} seeds")
        groups: dict[str, list[PlannedRun]] = defaultdict(list)
        for run in self.runs:
            groups[run.key.group].append(run)
        records = self.store.records()
        width = max(map(len, groups), default=0)
        size = f"{len(self.runs)} runs of {' x '.join(shape)}"
        lines = [f"sweep {self.grid.name}: {size}, in {self.store.folder}"]
        for name, runs in groups.items():
            lines.append(f"  {name:<{width}}  {_counted(runs, records, _to_do)}")
        lines.append(f"in all: {_counted(self.runs, records, _to_do)}")
        return "\n".join(lines)


def make_plan(
    grid: Grid,
    resolve: Callable[[Combination], tuple[dict[str, Any], str]],
    identity: Callable[[dict[str, Any], str], str],
    root: str,
    force: bool = False,
    absent: dict[str, str] | None = None,
) -> Plan:
    """Resolve all runs of a grid, and open the store of their results, which force archives.

    The command line resolves a combination to its config and the checksum of its data, and gives
    runs with equal results the same identity, a checksum of both. Given a dictionary of the absent,
    groups whose data is not here (AbsentDataError) are left out, and noted there with the reason.
    """
    runs: list[PlannedRun] = []
    for combination in grid.combinations():
        try:
            if grid.per_seed:
                each = [resolve(grid.with_seed(combination, seed)) for seed in grid.seeds]
            else:
                each = [resolve(combination)] * len(grid.seeds)
        except AbsentDataError as error:
            if absent is None:
                raise AbsentDataError(f"{error}\nOr leave such runs out with --subset.") from error
            absent[combination.group] = str(error)
            continue
        for seed, (config, data_sha256) in zip(grid.seeds, each, strict=True):
            _check_alone(combination, config)
            mine = copy.deepcopy(config) | {"seed_everything": seed}
            key = RunKey(combination.group, seed, identity(mine, data_sha256))
            options = tuple(grid.per_seed.get(seed, ()))
            runs.append(PlannedRun(key, combination.labels, mine, data_sha256, len(runs), options))
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.key.identity, run)
        if other is not run:
            raise PlanError(
                f"{other.key.label!r} and {run.key.label!r} are the same run: "
                "the difference between them has no effect. Exclude one of them by a rule with "
                "skip: true."
            )
    store = Store(root, grid.name)
    if force:
        _archive(runs, store)
    store.check_version(__version__)
    return Plan(grid, runs, store)


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


def _archive(runs: list[PlannedRun], store: Store) -> None:
    """Archive the results of these runs, and those of other versions."""
    wanted = {run.key.identity for run in runs}
    for record in store.records().values():
        if record.identity not in wanted and record.version == __version__:
            continue
        with store.claim(record.identity) as mine:
            if not mine:
                raise StoreError(
                    f"{str(record.folder)!r} is being worked on by another process; stop it first."
                )
            store.archive(record)


def _counted(
    runs: list[PlannedRun], records: dict[str, Record], describe: Callable[[Record | None], str]
) -> str:
    counts = Counter(describe(records.get(run.key.identity)) for run in runs)
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _to_do(record: Record | None) -> str:
    if record is None:
        return "to run"
    return record.status if record.is_result else f"to run again ({record.status})"
