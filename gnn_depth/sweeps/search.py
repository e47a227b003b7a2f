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
    PlanError,
    PlannedRun,
    RunsOf,
    check_distinct,
    skip_missing_data,
)
from gnn_depth.sweeps.store import Record, Store
from gnn_depth.sweeps.worker import say

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
    metric: str  # as in val/acc
    lower_is_better: bool
    runs: dict[int, list[PlannedRun]] = field(default_factory=dict)  # by number of the trial
    refused: int = 0  # settings in a row

    def open(self, storage: Any) -> None:
        """Open the study in a storage, and begin it if it is new."""
        direction = "minimize" if self.lower_is_better else "maximize"
        self.runs.clear()
        self.optuna = optuna.create_study(
            storage=storage, study_name=self.name, direction=direction, load_if_exists=True
        )

    def trials(self, *states: TrialState) -> list[Any]:
        """The trials that have begun, those in some states alone if these are given."""
        return self.optuna.get_trials(deepcopy=False, states=states or None)

    def mean(self, number: int, records: Mapping[str, Record], metric: str) -> float | None:
        """The mean of a metric over a trial's runs; None if one diverged, failed or has none."""
        values = []
        for run in self.runs[number]:
            record = records[run.key.identity]
            value = record.value(metric)
            if record.status != "finished" or value is None or not math.isfinite(value):
                return None
            values.append(value)
        return statistics.fmean(values)

    def tell(self, records: Mapping[str, Record]) -> None:
        """Tell Optuna the values of trials whose runs have ended."""
        for trial in self.trials(TrialState.RUNNING):
            identities = {run.key.identity for run in self.runs[trial.number]}
            if not identities <= set(records):
                continue
            value = self.mean(trial.number, records, best_value(self.metric))
            state = TrialState.COMPLETE
            # A pruned trial ranks below all others: the sampler avoids settings that diverge.
            if value is None:
                state = TrialState.PRUNED
            self.optuna.tell(trial.number, value, state=state)

    def ask(self) -> Any:
        """A trial whose values depend on its number and the results before it alone: a search
        that was stopped goes on as if it had not been."""
        entropy = (self.search.seed, len(self.trials()), 0)
        seed = int(SeedSequence(entropy).generate_state(1)[0])
        # What was tried is what TPE likes: after a refusal settings are drawn at random.
        self.optuna.sampler = RandomSampler(seed)
        if self.search.sampler == "tpe" and not self.refused:
            self.optuna.sampler = TPESampler(seed=seed)
        return self.optuna.ask({option.name: option.distribution for option in self.search.options})

    def combination_of(self, trial: Any) -> Combination:
        """The combination with the values of a trial."""
        labels = {}
        for option in self.search.options:
            labels[option.name] = option.label_of(trial.params[option.name])
        return self.search.combined(self.combination, labels)


def best_value(metric: str) -> str:
    """The name in a result of a metric at the best epoch: ``val_acc_at_best_val``."""
    return f"{metric.replace('/', '_')}_at_best_val"


def journal(store: Store) -> JournalStorage:
    """The trials of a sweep, beside its runs."""
    return JournalStorage(JournalFileBackend(str(store.folder / JOURNAL)))


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
            for trial in study.trials():
                if trial.state != TrialState.FAIL:
                    self._add_runs(study, trial)

    def begin(self, force: bool) -> None:
        storage = journal(self.store)
        self.load(storage)
        super().begin(force)
        if force:
            self.runs.clear()
            for study in self.studies:
                optuna.delete_study(study_name=study.name, storage=storage)
                study.open(storage)

    def _add_runs(self, study: Study, trial: Any) -> list[PlannedRun]:
        """Plan the runs of a trial; one whose options do not go together, or that was tried before,
        has failed."""
        place = sum(map(len, study.runs.values()))
        known = {run.key.identity for run in self.runs}
        try:
            runs = self.runs_of(study.combination_of(trial), place)
        except ValueError as error:
            say(f"not tried: {error}")
            runs = []
        if not runs or any(run.key.identity in known for run in runs):
            study.optuna.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            return []
        study.runs[trial.number] = runs
        self.runs += runs
        return runs

    def next_runs(self, records: Mapping[str, Record]) -> list[PlannedRun]:
        for study in self.studies:
            study.tell(records)
            while len(study.runs) < study.search.trials and study.refused < MOST_REFUSED:
                runs = self._add_runs(study, study.ask())
                study.refused = 0 if runs else study.refused + 1
                study.tell(records)
                pending = [run for run in runs if run.key.identity not in records]
                if pending:
                    return pending
        return []

    def listing(self) -> str:
        storage: Any = InMemoryStorage()
        if (self.store.folder / JOURNAL).exists():
            storage = journal(self.store)
        self.load(storage)
        return super().listing()

    def best(self) -> list[str]:
        lines = []
        for study in self.studies:
            line = f"{study.combination.group}: none of {len(study.runs)} trials has a value"
            if study.trials(TrialState.COMPLETE):
                trial = study.optuna.best_trial
                folder = self.store.folder_of(study.runs[trial.number][0].key)
                command = shlex.join(["gnn-depth", "fit", "--config", f"{folder}/config.yaml"])
                line = f"best {best_value(study.metric)}: {trial.value:.4f}, {command}"
            lines.append(line)
        return lines


def make_search_plan(
    grid: Grid,
    runs_of: RunsOf,
    store: Store,
    absent: dict[str, str] | None,
    objective: Objective,
) -> SearchPlan:
    """Check the search of a grid before its first run.

    Each end of a range and each choice is resolved once, so that a search does not stop at a value
    that an option refuses.

    Raises:
        PlanError: An option has no effect, or one changes what trials are compared by.
    """
    search = grid.search
    assert search is not None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    studies = []
    examples: list[PlannedRun] = []
    for combination in grid.combinations():
        try:
            mine = []
            for labels in search.examples():
                mine.append(runs_of(search.combined(combination, labels), 0)[0])
        except AbsentDataError as error:
            skip_missing_data(combination, error, absent)
            continue
        examples += mine
        objectives = {objective(run.config) for run in mine}
        if len(objectives) > 1:
            metrics = " and ".join(sorted(metric for metric, _ in objectives))
            raise PlanError(f"trials are compared by one metric, and the runs choose {metrics}.")
        # Another base, data set or range, or other seeds, make another study.
        name = digest(f"{grid.seeds} {[run.key.identity for run in mine]}")
        studies.append(Study(search, combination, name, *objectives.pop()))
    check_distinct(examples)
    return SearchPlan(grid, [], store, studies, runs_of)
