"""A search for the best setting: an Optuna study for each combination, whose trials are runs.

A trial is a run for each seed, and its value is their mean. The studies are kept in a journal
beside the runs, so that a search that was stopped goes on.
"""

import math
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import optuna
from numpy.random import SeedSequence
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from gnn_depth.registry import unknown
from gnn_depth.runs import digest
from gnn_depth.sweeps.grid import Axes, Combination, Grid, GridError, Label, mapping, read_axis
from gnn_depth.sweeps.plan import Plan, check_distinct
from gnn_depth.sweeps.store import PlannedRun, Record, Store

JOURNAL = "search.journal"
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}

KEYS = ("options", "trials", "sampler", "seed")

# A combination and its place in the grid -> its runs.
RunsOf: TypeAlias = Callable[[Combination, int], list[PlannedRun]]
# A resolved config -> the checksum of its data, and the task of its model.
Check: TypeAlias = Callable[[dict[str, Any]], tuple[str | None, Any]]


@dataclass(frozen=True)
class Search:
    """The section ``search`` of a grid file.

    Attributes:
        values: Of each searched option those to choose from, or the two ends of its range.
        distributions: How Optuna draws each option.
        trials: Number of settings to try, for each combination of the axes.
        sampler: ``tpe``, Optuna's tree-structured Parzen estimator, or ``random``.
        seed: Determines what is drawn, given the results so far.
    """

    values: Axes
    distributions: dict[str, BaseDistribution]
    trials: int
    sampler: str
    seed: int

    def combined(self, combination: Combination, drawn: Mapping[str, Label]) -> Combination:
        """A combination of the axes with values of the searched options, which come last; numbers
        that Optuna drew have four digits."""
        labels, settings = dict(combination.labels), list(combination.settings)
        for name, label in drawn.items():
            known = self.values[name]
            if isinstance(label, float) and label not in known:
                label = float(f"{label:.4g}")
            labels[name] = label
            settings.append(known.get(label, {name: label}))
        return Combination(labels, settings)


def read_search(content: object, axes: Axes) -> Search:
    """Read the section ``search`` of a grid file with these axes."""
    section = {"seed": 0, "sampler": "tpe", **mapping(content, "search", KEYS)}
    found = {}
    drawn: dict[str, BaseDistribution] = {}
    for name, values in mapping(section.get("options"), "options").items():
        if name in axes:
            raise GridError(f"{name} is searched and an axis: it can be one of them.")
        if isinstance(values, list):
            found[name] = read_axis(name, values)
            drawn[name] = CategoricalDistribution(list(found[name]))
            continue
        ends = mapping(values, name)
        kind: Any = FloatDistribution
        if type(ends.get("low")) is type(ends.get("high")) is int:  # 0 to 0.8 are no integers
            kind = IntDistribution
        try:
            drawn[name] = kind(**ends)
        except (TypeError, ValueError) as error:
            raise GridError(f"{name} is searched in a list, or from low to high: {error}") from None
        found[name] = read_axis(name, [ends["low"], ends["high"]])
    if not found:
        raise GridError(
            "search needs options, as in options: {model.dropout: {low: 0.0, high: 0.8}}."
        )
    for key, least in (("trials", 1), ("seed", 0)):
        number = section.get(key)
        if type(number) is not int or number < least:
            raise GridError(f"search needs {key}, a whole number from {least}, not {number!r}.")
    sampler = section["sampler"]
    if sampler not in SAMPLERS:
        raise GridError(unknown("sampler", str(sampler), SAMPLERS))
    return Search(found, drawn, section["trials"], sampler, section["seed"])


@dataclass
class Study:
    """The trials of one combination of the axes."""

    combination: Combination
    name: str
    metric: str  # in a result, as in val_acc_at_best_val
    direction: str
    optuna: Any = None  # the study itself, once a storage is open
    runs: dict[int, list[PlannedRun]] = field(default_factory=dict)  # by number of the trial

    def tell(self, records: Mapping[str, Record]) -> None:
        """Tell Optuna the mean values of trials whose runs have ended."""
        for trial in self.optuna.get_trials(states=[TrialState.RUNNING]):
            runs = [run.identity for run in self.runs[trial.number]]
            if not records.keys() >= set(runs):
                continue
            mean = statistics.fmean(records[run].value_of(self.metric) for run in runs)
            if math.isfinite(mean):
                self.optuna.tell(trial.number, mean)
            else:  # ranks below all others: the sampler avoids settings that diverge
                self.optuna.tell(trial.number, state=TrialState.PRUNED)


@dataclass
class SearchPlan(Plan):
    """The plan of a search: its runs grow by those of a trial whenever a worker is free."""

    studies: list[Study]
    runs_of: RunsOf

    @property
    def size(self) -> int:
        return self.grid.search.trials * len(self.studies) * len(self.grid.seeds)

    def load(self, storage: Any) -> None:
        """Open the studies in a storage, and collect the trials that have begun."""
        self.runs.clear()
        for study in self.studies:
            study.runs.clear()
            study.optuna = optuna.create_study(
                storage=storage,
                study_name=study.name,
                direction=study.direction,
                load_if_exists=True,
            )
            for trial in study.optuna.trials:
                self._add_runs(study, trial)

    def begin(self, force: bool) -> None:
        storage = journal(self.store)
        self.load(storage)
        super().begin(force)
        if force:
            for study in self.studies:
                optuna.delete_study(study_name=study.name, storage=storage)
            self.load(storage)

    def ask(self, study: Study) -> Any:
        """A trial whose values depend on its number and the results before it alone: a search
        that was stopped goes on as if it had not been."""
        search = self.grid.search
        entropy = (search.seed, len(study.optuna.trials), 0)
        seed = int(SeedSequence(entropy).generate_state(1)[0])
        study.optuna.sampler = SAMPLERS[search.sampler](seed=seed)
        return study.optuna.ask(search.distributions)

    def _add_runs(self, study: Study, trial: Any) -> list[PlannedRun]:
        """Plan the runs of a trial; one whose options do not go together has none."""
        drawn = self.grid.search.combined(study.combination, trial.params)
        try:
            runs = self.runs_of(drawn, trial.number * len(self.grid.seeds))
        except ValueError as error:
            print(f"not tried: {error}")
            study.optuna.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            return []
        study.runs[trial.number] = runs
        self.runs += runs
        return runs

    def next_runs(self, records: Mapping[str, Record]) -> list[PlannedRun]:
        for study in self.studies:
            study.tell(records)
            while len(study.optuna.trials) < self.grid.search.trials:
                runs = self._add_runs(study, self.ask(study))
                study.tell(records)
                pending = [run for run in runs if run.identity not in records]
                if pending:
                    return pending
        return []

    def best(self) -> Iterator[str]:
        for study in self.studies:
            line = f"{study.combination.group}: none of {len(study.runs)} trials has a value"
            if study.optuna.get_trials(states=[TrialState.COMPLETE]):
                trial = study.optuna.best_trial
                folder = self.store.folder_of(study.runs[trial.number][0])
                command = shlex.join(["gnn-depth", "fit", "--config", f"{folder}/config.yaml"])
                line = f"best {study.metric}: {trial.value:.4f}, {command}"
            yield line


def journal(store: Store) -> JournalStorage:
    """The trials of a sweep, beside its runs."""
    return JournalStorage(JournalFileBackend(str(store.folder / JOURNAL)))


def make_search_plan(grid: Grid, runs_of: RunsOf, store: Store, check: Check) -> SearchPlan:
    """Resolve one setting of every combination, before the first run of a search."""
    search = grid.search
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    first = {name: next(iter(values)) for name, values in search.values.items()}
    studies = []
    examples = []
    for combination in grid.combinations():
        runs = runs_of(search.combined(combination, first), 0)
        if not runs:  # its data is not here
            continue
        examples.append(runs[0])
        _, task = check(runs[0].config)
        if task is None:
            raise GridError("a search needs the metrics of a NodeClassifier, not a class of yours.")
        # Another base, data set or range, or other seeds, make another study.
        name = digest(f"{grid.seeds} {search.distributions} {runs[0].identity}")
        metric = f"val_{task.best}_at_best_val"
        direction = "minimize" if task.lower_is_better else "maximize"
        studies.append(Study(combination, name, metric, direction))
    check_distinct(examples)
    plan = SearchPlan(grid, [], store, studies, runs_of)
    if (store.folder / JOURNAL).exists():  # nothing is written before the search begins
        plan.load(journal(store))
    return plan
