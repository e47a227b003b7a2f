"""A search for the best setting: Optuna proposes settings, and each is tried by ordinary runs.

A setting is a *trial*, with a run for each seed. Nothing is kept besides the runs: before each
proposal Optuna's study is made anew from their results, so that a search that was stopped goes on.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from gnn_depth.sweeps.grid import Combination, Grid, Label, Search
from gnn_depth.sweeps.plan import (
    AbsentDataError,
    Plan,
    PlanError,
    PlannedRun,
    RunsOf,
    leave_out,
    open_store,
)
from gnn_depth.sweeps.store import Record, Store

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

LOCK = "search"  # the claim of the process that proposes settings
ATTEMPTS = 1000  # to find a setting that was not tried before
MOST_REFUSED = 100  # settings in a row whose options do not go together

# A resolved config -> the validation metric that chooses its best epoch, and whether the lowest
# value of it is the best.
Objective: TypeAlias = Callable[[dict[str, Any]], tuple[str, bool]]


def best_value(metric: str) -> str:
    """The name in a result of a metric at the best epoch: ``val_acc_at_best_val``."""
    return f"{metric.replace('/', '_')}_at_best_val"


@dataclass
class Trial:
    """Values of the searched options, and the runs with them, one for each seed."""

    labels: dict[str, Label]
    runs: list[PlannedRun]

    def is_done(self, records: Mapping[str, Record]) -> bool:
        return all(run.key.identity in records for run in self.runs)

    def mean(self, records: Mapping[str, Record], metric: str) -> float | None:
        """The mean of a metric such as ``val_acc_at_best_val`` over the seeds.

        None if one of the runs has none, because it diverged or failed, or is not done.
        """
        values = []
        for run in self.runs:
            record = records.get(run.key.identity)
            value = record.value(metric) if record and record.status == "finished" else None
            if value is None or not math.isfinite(value):
                return None
            values.append(value)
        return sum(values) / len(values) if values else None


@dataclass
class Study:
    """The trials of one combination of the axes, in the order in which they began."""

    search: Search
    combination: Combination
    metric: str  # that chooses, as in val/acc
    lower_is_better: bool
    trials: list[Trial] = field(default_factory=list)
    # Proposals whose options do not go together. They are no trials: a search that goes on later
    # makes the same ones again, and so comes to the same trials.
    refused: list[dict[str, Label]] = field(default_factory=list)
    is_exhausted: bool = False  # no setting was found that had not been tried

    def value_of(self, trial: Trial, records: Mapping[str, Record]) -> float | None:
        """The mean over the seeds of the best validation metric; None if a run has none."""
        return trial.mean(records, best_value(self.metric))

    def propose(self, records: Mapping[str, Record]) -> dict[str, Label] | None:
        """Values of the searched options that were not tried yet; None if none are found.

        They depend on the search, the number of trials and the results, and on nothing else.
        """
        import optuna

        options = self.search.options
        distributions = {name: option.distribution() for name, option in options.items()}
        direction = "minimize" if self.lower_is_better else "maximize"
        study = optuna.create_study(direction=direction)
        for trial in self.trials:
            if not trial.is_done(records):
                continue
            value = self.value_of(trial, records)
            # A pruned trial without a value ranks below all that have one: the sampler then avoids
            # settings that diverge, which a failed trial would hide from it.
            state = optuna.trial.TrialState.COMPLETE
            if value is None:
                state = optuna.trial.TrialState.PRUNED
            study.add_trial(
                optuna.trial.create_trial(
                    state=state, value=value, params=trial.labels, distributions=distributions
                )
            )
        tried = [*(trial.labels for trial in self.trials), *self.refused]
        for attempt in range(ATTEMPTS):
            study.sampler = self._sampler(attempt)
            params = study.ask(distributions).params
            labels = {name: option.label_of(params[name]) for name, option in options.items()}
            if labels not in tried:
                return labels
        return None

    def _sampler(self, attempt: int) -> "BaseSampler":
        """A sampler whose draws depend on the number of the trial.

        One that went on drawing would begin again when a search goes on, with settings that were
        tried. All combinations of the axes begin with the same settings.
        """
        from numpy.random import SeedSequence
        from optuna.samplers import RandomSampler, TPESampler

        entropy = (self.search.seed, len(self.trials), attempt)
        seed = int(SeedSequence(entropy).generate_state(1)[0])
        # What was tried is what TPE likes: further attempts are drawn at random.
        if attempt > 0 or self.search.sampler == "random":
            return RandomSampler(seed)
        return TPESampler(seed=seed)

    def runs_of_next(self, labels: Mapping[str, Label], runs_of: RunsOf) -> list[PlannedRun]:
        """The runs of a trial after those that have begun, resolved."""
        place = sum(len(trial.runs) for trial in self.trials)
        return runs_of(self.search.combined(self.combination, labels), place)

    def best(self, records: Mapping[str, Record]) -> Trial | None:
        """The trial with the best value, the earlier one of equals; None if none has a value."""
        best, best_score = None, math.inf
        for trial in self.trials:
            value = self.value_of(trial, records)
            if value is None:
                continue
            score = value if self.lower_is_better else -value
            if score < best_score:
                best, best_score = trial, score
        return best

    def labels_in(self, record: Record) -> dict[str, Label] | None:
        """The values of the searched options of a run in this study; None for other runs."""
        axes = record.result.get("axes", {})
        if set(axes) != {*self.combination.labels, *self.search.options}:
            return None
        for name, label in self.combination.labels.items():
            if axes[name] != label:
                return None
        labels = {name: axes[name] for name in self.search.options}
        for name, option in self.search.options.items():
            if not option.has(labels[name]):
                return None
        return labels


@dataclass(frozen=True)
class SearchPlan(Plan):
    """The plan of a search: its runs grow by those of a trial whenever a worker is free."""

    studies: list[Study]
    known: Mapping[str, Record]  # the results that were there at the start, by identity
    runs_of: RunsOf

    @property
    def size(self) -> int:
        trials = 0
        for study in self.studies:
            to_come = 0 if study.is_exhausted else study.search.trials
            trials += max(to_come, len(study.trials))
        return trials * len(self.grid.seeds)

    @property
    def metric(self) -> str | None:
        """The one that chooses, rather than one of the test set."""
        return best_value(self.studies[0].metric)

    def next_runs(
        self, outcomes: Mapping[str, Record], say: Callable[[str], None]
    ) -> list[PlannedRun]:
        records = {**self.known, **outcomes}
        for study in self.studies:
            in_a_row = 0
            while len(study.trials) < study.search.trials and not study.is_exhausted:
                labels = study.propose(records) if in_a_row < MOST_REFUSED else None
                if labels is None:
                    study.is_exhausted = True
                    reason = "no setting is left that was not tried"
                    if in_a_row == MOST_REFUSED:
                        reason = f"{MOST_REFUSED} settings in a row have options that do not fit"
                    say(
                        f"the search in {study.combination.group} ends after "
                        f"{len(study.trials)} trials: {reason}."
                    )
                    break
                try:
                    runs = study.runs_of_next(labels, self.runs_of)
                except ValueError as error:  # its options do not go together
                    say(f"not tried: {error}")
                    study.refused.append(labels)
                    in_a_row += 1
                    continue
                study.trials.append(Trial(labels, runs))
                self.runs.extend(runs)
                to_do = [run for run in runs if run.key.identity not in records]
                if to_do:
                    return to_do
        return []


def make_search_plan(
    grid: Grid,
    runs_of: RunsOf,
    objective: Objective,
    root: str,
    force: bool,
    absent: dict[str, str] | None,
) -> SearchPlan:
    """Check the search of a grid before its first run, and collect the trials that have begun.

    Each end of a range and each choice is resolved once, so that a search does not stop at a value
    that an option refuses. The arguments are those of `make_plan`.

    Raises:
        PlanError: An option has no effect, or one changes what trials are compared by.
    """
    search = grid.search
    assert search is not None
    studies = []
    seen: dict[str, str] = {}
    for combination in grid.combinations():
        try:
            metric, lower_is_better = _checked_objective(
                search, combination, runs_of, objective, seen
            )
        except AbsentDataError as error:
            leave_out(combination, error, absent)
            continue
        studies.append(Study(search, combination, metric, lower_is_better))
    store = Store(root, grid.name)
    runs = _begun(studies, store, runs_of)
    open_store(root, grid.name, runs, force)
    if force:
        for study in studies:
            study.trials.clear()
        runs = []
    known = {name: record for name, record in store.records().items() if record.is_result}
    return SearchPlan(grid, runs, store, studies, known, runs_of)


def _checked_objective(
    search: Search,
    combination: Combination,
    runs_of: RunsOf,
    objective: Objective,
    seen: dict[str, str],
) -> tuple[str, bool]:
    """The objective that all trials of a combination share; see `make_search_plan`.

    ``seen`` has the groups of all combinations so far by the identity of their runs.
    """
    found: dict[tuple[str, bool], str] = {}
    for labels in search.examples():
        run = runs_of(search.combined(combination, labels), 0)[0]
        other = seen.setdefault(run.key.identity, run.key.group)
        if other != run.key.group:
            raise PlanError(
                f"{other!r} and {run.key.group!r} are the same run: the option in which they "
                "differ has no effect, or is also set on the command line, under per_seed or by "
                "the search."
            )
        found.setdefault(objective(run.config), run.key.group)
    if len(found) > 1:
        said = " and ".join(f"{group!r} by {metric}" for (metric, _), group in found.items())
        raise PlanError(f"trials are compared by one metric, and the runs choose {said}.")
    (shared,) = found
    return shared


def _begun(studies: list[Study], store: Store, runs_of: RunsOf) -> list[PlannedRun]:
    """Give each study the trials that have runs in the store; returns the runs of all.

    Runs with another base config, or values outside today's ranges, are of another search.
    """
    runs = []
    records = sorted(store.records().values(), key=lambda record: record.result.get("place", 0))
    for study in studies:
        by_labels: dict[tuple[Label, ...], list[Record]] = defaultdict(list)
        for record in records:
            labels = study.labels_in(record)
            if labels is not None:
                by_labels[tuple(labels.values())].append(record)
        for values, found in by_labels.items():
            labels = dict(zip(study.search.options, values, strict=True))
            planned = study.runs_of_next(labels, runs_of)
            identities = {run.key.identity for run in planned}
            if any(record.identity in identities for record in found):
                study.trials.append(Trial(labels, planned))
                runs += planned
    return runs
