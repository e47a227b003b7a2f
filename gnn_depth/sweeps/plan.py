"""The plan of a sweep: all runs of a grid, resolved before anything runs, and the state of each."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gnn_depth._version import __version__
from gnn_depth.registry import counted
from gnn_depth.sweeps.grid import Grid
from gnn_depth.sweeps.store import PlannedRun, Record, Store


class PlanError(ValueError):
    """The runs of a grid contradict each other or results that are there, or cannot be part of a
    sweep."""


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
        """Refuse results of another version, in which the same config may give other numbers;
        ``force`` archives these and those of the plan."""
        planned = {run.identity for run in self.runs}
        for identity, record in self.store.records().items():
            version = record.result.get("packages", {}).get("gnn-depth", "unknown")
            is_other = record.is_result and version != __version__
            if is_other and not force:
                raise PlanError(
                    f"{str(self.store.folder)!r} has results of gnn-depth {version}, and "
                    f"this is {__version__}.\nChoose another folder with --root, or --force to "
                    "archive them and run everything again."
                )
            if force and (is_other or identity in planned):
                with self.store.claim(identity) as mine:
                    if not mine:
                        raise PlanError(f"another process works on {record.folder}; stop it first.")
                    self.store.archive(record.folder)

    def next_runs(self, records: Mapping[str, Record]) -> list[PlannedRun]:
        """Further runs, given what came of those before, by identity; a grid has none."""
        return []

    def best(self) -> Iterable[str]:
        """Lines about the best setting of a search."""
        return []

    def states(self) -> dict[str, Counter[str]]:
        """The number of runs in each state, for every group."""
        records = self.store.records()
        found: dict[str, Counter[str]] = {}
        for run in self.runs:
            record = records.get(run.identity)
            state = "to run" if record is None else record.status
            found.setdefault(run.group, Counter())[state] += 1
        return found

    def state(self) -> str:
        """The number of all runs in each state: ``3 finished, 1 failed``."""
        states = sum(self.states().values(), Counter())
        states["to run"] += self.size - len(self.runs)
        return counted(+states)  # without those that are zero

    def listing(self) -> str:
        """Every group of runs, and the number of its finished runs."""
        shape = [f"{len(axis)} {name}" for name, axis in self.grid.axes.items()]
        if self.grid.search is not None:
            shape.append(f"{self.grid.search.trials} trials")
        shape.append(f"{len(self.grid.seeds)} seeds")
        size = f"{self.size} runs of {' x '.join(shape)}"
        lines = [f"sweep {self.grid.name}: {size}, in {self.store.folder}"]
        groups = self.states()
        width = max(map(len, groups), default=0)
        for name, states in groups.items():
            lines.append(f"  {name:<{width}}  {counted(states)}")
        return "\n".join([*lines, f"in all: {self.state()}"])


def check_distinct(runs: Iterable[PlannedRun]) -> None:
    """Refuse runs that differ in their labels alone."""
    seen: dict[str, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.identity, run)
        if other is not run:
            raise PlanError(
                f"{other.label!r} and {run.label!r} are the same run: the option in which "
                "they differ has no effect, or is also set on the command line, under per_seed or "
                "by a search. Exclude one of them by a rule with skip: true."
            )


def check_alone(group: str, config: dict[str, Any]) -> None:
    """Refuse options that do not work in a sweep."""
    trainer = config["trainer"]
    wrong = {
        "trainer.devices": trainer.get("devices") not in ("auto", 1, "1"),
        "trainer.num_nodes": trainer.get("num_nodes", 1) != 1,
        "trainer.fast_dev_run": trainer.get("fast_dev_run"),
        "ckpt_path": config.get("ckpt_path"),
    }
    for option, is_wrong in wrong.items():
        if is_wrong:
            raise PlanError(
                f"{group}: {option} is for a single fit: each run of a sweep is one "
                "process on one device, starts afresh and keeps its results."
            )
