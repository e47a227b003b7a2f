"""A search for the best setting: an Optuna study for each combination, whose trials are runs.

A trial is a run for each seed, and its value is their mean. The studies are kept in a journal
beside the runs, so that a search that was stopped goes on.
"""

import math
import shlex
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import optuna
from numpy.random import SeedSequence
from optuna.samplers import RandomSampler, TPESampler
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from gnn_depth.runs import digest
from gnn_depth.sweeps.grid import Combination, Grid, Search
from gnn_depth.sweeps.plan import (
    AbsentDataError,
    Plan,
    PlannedRun,
    RunsOf,
    check_distinct,
    skip_missing_data,
)
from gnn_depth.sweeps.store import Record, Store

JOURNAL = "search.journal"
MOST_REFUSED = 100  # settings in a row that were tried before or whose options do not go together

# A resolved config -> the validation metric that chooses its best epoch, and whether the lowest
# value of it is the best.
Objective: TypeAlias = Callable[[dict[str, Any]], tuple[str, bool]]


@dataclass
class Study:
    """The trials of one combination of the axes."""

    search: Search
    combination: Combination
    name: str
    metric: str  # in a result, as in val_acc_at_best_val
    lower_is_better: bool
    runs: dict[int, list[PlannedRun]] = field(default_factory=dict)  # by number of the trial

    def open(self, storage: Any) -> None:
        """Open the study in a storage, and begin it if it is new."""
        direction = "minimize" if self.lower_is_better else "maximize"
        self.runs.clear()
        self.optuna = optuna.create_study(
            storage=storage, study_name=self.name, direction=direction, load_if_exists=True
        )

    def tell(self, records: Mapping[str, Record]) -> None:
        """Tell Optuna the mean values of trials whose runs have ended."""
        for trial in self.optuna.get_trials(states=[TrialState.RUNNING]):
            values = []
            for run in self.runs[trial.number]:
                record = records.get(run.key.identity)
                if record is not None:
                    value = record.result.get("metrics", {}).get(self.metric)
                    is_value = record.status == "finished" and value is not None
                    values.append(float(value) if is_value else math.nan)
            if len(values) < len(self.runs[trial.number]):
                continue
            mean = statistics.fmean(values)
            if math.isfinite(mean):
                self.optuna.tell(trial.number, mean)
            else:  # ranks below all others: the sampler avoids settings that diverge
                self.optuna.tell(trial.number, state=TrialState.PRUNED)

    def ask(self, at_random: bool) -> Any:
        """A trial whose values depend on its number and the results before it alone: a search
        that was stopped goes on as if it had not been."""
        entropy = (self.search.seed, len(self.optuna.trials), 0)
        seed = int(SeedSequence(entropy).generate_state(1)[0])
        self.optuna.sampler = RandomSampler(seed)
        if self.search.sampler == "tpe" and not at_random:
            self.optuna.sampler = TPESampler(seed=seed)
        return self.optuna.ask({option.name: option.distribution for option in self.search.options})


@dataclass
class SearchPlan(Plan):
    """The plan of a search: its runs grow by those of a trial whenever a worker is free."""

    studies: list[Study]
    runs_of: RunsOf

    @property
    def size(self) -> int:
        return sum(study.search.trials for study in self.studies) * len(self.grid.seeds)

    def load(self, storage: Any) -> None:
        """Collect the trials that have begun."""
        for study in self.studies:
            study.open(storage)
            for trial in study.optuna.trials:
                if trial.state != TrialState.FAIL:
                    self._add_runs(study, trial)

    def begin(self, force: bool) -> None:
        storage = journal(self.store)
        self.runs.clear()
        self.load(storage)
        super().begin(force)
        if force:
            for study in self.studies:
                optuna.delete_study(study_name=study.name, storage=storage)
            self.runs.clear()
            self.load(storage)

    def _add_runs(self, study: Study, trial: Any) -> list[PlannedRun]:
        """Plan the runs of a trial; one whose options do not go together, or that was tried before,
        has failed."""
        known = {run.key.identity for run in self.runs}
        place = sum(map(len, study.runs.values()))
        runs = []
        try:
            runs = self.runs_of(study.search.combined(study.combination, trial.params), place)
        except ValueError as error:
            print(f"not tried: {error}")
        if not runs or any(run.key.identity in known for run in runs):
            study.optuna.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            return []
        study.runs[trial.number] = runs
        self.runs += runs
        return runs

    def next_runs(self, records: Mapping[str, Record]) -> list[PlannedRun]:
        for study in self.studies:
            refused = 0
            study.tell(records)
            while len(study.runs) < study.search.trials and refused < MOST_REFUSED:
                # What was tried is what TPE likes: after a refusal settings are drawn at random.
                runs = self._add_runs(study, study.ask(at_random=refused > 0))
                refused += not runs
                study.tell(records)
                pending = [run for run in runs if run.key.identity not in records]
                if pending:
                    return pending
        return []

    def best(self) -> list[str]:
        lines = []
        for study in self.studies:
            line = f"{study.combination.group}: none of {len(study.runs)} trials has a value"
            if study.optuna.get_trials(states=[TrialState.COMPLETE]):
                trial = study.optuna.best_trial
                folder = self.store.folder_of(study.runs[trial.number][0].key)
                command = shlex.join(["gnn-depth", "fit", "--config", f"{folder}/config.yaml"])
                line = f"best {study.metric}: {trial.value:.4f}, {command}"
            lines.append(line)
        return lines


def journal(store: Store) -> JournalStorage:
    """The trials of a sweep, beside its runs."""
    return JournalStorage(JournalFileBackend(str(store.folder / JOURNAL)))


def make_search_plan(
    grid: Grid, runs_of: RunsOf, store: Store, absent: dict[str, str] | None, objective: Objective
) -> SearchPlan:
    """Resolve one setting of every combination, before the first run of a search."""
    search = grid.search
    assert search is not None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    first = {option.name: next(iter(option.values)) for option in search.options}
    studies = []
    examples: list[PlannedRun] = []
    for combination in grid.combinations():
        try:
            examples.append(runs_of(search.combined(combination, first), 0)[0])
        except AbsentDataError as error:
            skip_missing_data(combination, error, absent)
            continue
        metric, lower_is_better = objective(examples[-1].config)
        # Another base, data set or range, or other seeds, make another study.
        name = digest(f"{grid.seeds} {search.options} {examples[-1].key.identity}")
        metric = f"{metric.replace('/', '_')}_at_best_val"
        studies.append(Study(search, combination, name, metric, lower_is_better))
    check_distinct(examples)
    plan = SearchPlan(grid, [], store, studies, runs_of)
    is_new = not (store.folder / JOURNAL).exists()
    plan.load(InMemoryStorage() if is_new else journal(store))
    return plan
