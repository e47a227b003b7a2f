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
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from gnn_depth.runs import digest
from gnn_depth.sweeps.grid import Combination, Grid
from gnn_depth.sweeps.plan import Plan, PlannedRun, check_distinct
from gnn_depth.sweeps.store import Record, Store

JOURNAL = "search.journal"
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}

# A combination and its place in the grid -> its runs.
RunsOf: TypeAlias = Callable[[Combination, int], list[PlannedRun]]
# A resolved config -> the validation metric that chooses its best epoch, and whether the lowest
# value of it is the best.
Objective: TypeAlias = Callable[[dict[str, Any]], tuple[str, bool]]


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
            values = []
            for run in self.runs[trial.number]:
                record = records.get(run.key.identity)
                if record is not None:
                    values.append(record.value_of(self.metric))
            if len(values) < len(self.runs[trial.number]):
                continue
            mean = statistics.fmean(values)
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
        assert self.grid.search is not None
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
        search: Any = self.grid.search
        entropy = (search.seed, len(study.optuna.trials), 0)
        seed = int(SeedSequence(entropy).generate_state(1)[0])
        study.optuna.sampler = SAMPLERS[search.sampler](seed=seed)
        return study.optuna.ask(search.distributions)

    def _add_runs(self, study: Study, trial: Any) -> list[PlannedRun]:
        """Plan the runs of a trial; one whose options do not go together has none."""
        search: Any = self.grid.search
        drawn = search.combined(study.combination, trial.params)
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
        search: Any = self.grid.search
        for study in self.studies:
            study.tell(records)
            while len(study.optuna.trials) < search.trials:
                runs = self._add_runs(study, self.ask(study))
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


def make_search_plan(grid: Grid, runs_of: RunsOf, store: Store, objective: Objective) -> SearchPlan:
    """Resolve one setting of every combination, before the first run of a search."""
    search: Any = grid.search
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    first = {name: next(iter(values)) for name, values in search.values.items()}
    studies = []
    examples: list[PlannedRun] = []
    for combination in grid.combinations():
        runs = runs_of(search.combined(combination, first), 0)
        if not runs:  # its data is not here
            continue
        examples.append(runs[0])
        metric, lower_is_better = objective(runs[0].config)
        # Another base, data set or range, or other seeds, make another study.
        name = digest(f"{grid.seeds} {search.distributions} {runs[0].key.identity}")
        metric = f"{metric.replace('/', '_')}_at_best_val"
        direction = "minimize" if lower_is_better else "maximize"
        studies.append(Study(combination, name, metric, direction))
    check_distinct(examples)
    plan = SearchPlan(grid, [], store, studies, runs_of)
    is_new = not (store.folder / JOURNAL).exists()
    plan.load(InMemoryStorage() if is_new else journal(store))
    return plan
