"""What a search reads from its file, and what it proposes, given results that are made up."""

import pytest
import yaml

from gnn_depth.sweeps.grid import Grid, GridError
from gnn_depth.sweeps.store import Record, Store
from tests.sweeps.jobs import planned

optuna = pytest.importorskip("optuna")

from gnn_depth.sweeps.search import SearchPlan, Study, read_search  # noqa: E402

RANGES = """
trials: 20
options:
  model.dropout: {low: 0.0, high: 0.8}
  model.optimizer.lr: {low: 1.0e-5, high: 0.1, log: true}
  model.num_layers: {low: 2, high: 64, log: true}
"""
BEST = "val_acc_at_best_val"


def runs_of(combination, place):
    return [planned("", 0, repr(combination.labels), combination.labels)]


def plan_in(folder, runs_of, storage, **more):
    """The plan of a search, and its one study."""
    grid = Grid("s", (), {}, (0,), (), {}, read_search(yaml.safe_load(RANGES) | more, {}))
    (combination,) = grid.combinations()
    study = Study(combination, "study", BEST, "maximize")
    plan = SearchPlan(grid, [], Store(folder, "s"), [study], runs_of)
    plan.load(storage or optuna.storages.InMemoryStorage())
    return plan, study


def tried(tmp_path, value_of, storage=None, **more):
    """Labels of all trials of a search; ``value_of`` their labels is the result, None if one
    diverged."""
    plan, tried.study = plan_in(tmp_path, runs_of, storage, **more)
    records = {}
    waiting = list(plan.runs)
    while waiting or (waiting := plan.next_runs(records)):
        run = waiting.pop()
        value = value_of(run.labels)
        status = "diverged" if value is None else "finished"
        metrics = {BEST: 0.9 if value is None else value}
        records[run.identity] = Record(tmp_path, {"status": status, "metrics": metrics})
    return [runs[0].labels for runs in tried.study.runs.values()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{options: {a: [1, 2]}, trial: 3}", "Did you mean 'trials'"),
        ("{options: {a: [1, 2]}, trials: true}", "from 1, not True"),
        ("{trials: 3}", "search needs options"),
        ("{trials: 3, options: {a: [1, 1]}}", "twice"),
        ("{trials: 3, options: {a: {low: 0}}}", "'high'"),
        ("{trials: 3, options: {a: {low: 2, high: 1}}}", "low=2, high=1"),
        ("{trials: 3, options: {a: {low: 0, high: 1, lg: true}}}", "'lg'"),
        ("{trials: 3, options: {a: [1]}, sampler: tp}", "Did you mean 'tpe'"),
        ("[1, 2]", "a mapping"),
    ],
)
def test_a_search_that_cannot_be_is_refused(text, said):
    with pytest.raises(GridError, match=said):
        read_search(yaml.safe_load(text), {})


def test_numbers_of_a_range_lie_in_it_and_have_four_digits(tmp_path):
    labels = tried(tmp_path, lambda labels: 0.5, sampler="random", trials=40)
    rates = [one["model.optimizer.lr"] for one in labels]
    assert 1e-5 <= min(rates) < 1e-4
    assert 1e-2 < max(rates) <= 0.1
    assert all(float(f"{rate:.4g}") == rate for rate in rates)
    assert all(0 <= one["model.dropout"] <= 0.8 for one in labels)
    assert all(isinstance(one["model.num_layers"], int) for one in labels)


@pytest.mark.parametrize("stopped_after", [1, 7, 15])
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, stopped_after):
    def value_of(labels):
        return None if labels["model.num_layers"] > 40 else 1 - abs(labels["model.dropout"] - 0.3)

    whole = tried(tmp_path, value_of)
    storage = optuna.storages.InMemoryStorage()
    assert tried(tmp_path, value_of, storage, trials=stopped_after) == whole[:stopped_after]
    assert tried(tmp_path, value_of, storage) == whole
    assert tried(tmp_path, value_of, seed=1)[0] != whole[0]


def test_what_diverged_is_worse_than_everything_and_avoided(tmp_path):
    def value_of(labels):  # where it does not diverge, no value is better than another by much
        return None if labels["model.dropout"] > 0.2 else 0.1 + 1e-3 * labels["model.num_layers"]

    labels = tried(tmp_path, value_of, trials=40)
    diverged = [one["model.dropout"] > 0.2 for one in labels]
    assert sum(diverged[-20:]) < sum(diverged[:20])
    assert tried.study.optuna.best_trial.params["model.dropout"] <= 0.2


def test_a_trial_has_the_mean_of_its_seeds_and_none_without_one_of_them(tmp_path):
    plan, study = plan_in(tmp_path, runs_of, None)
    for values in ((0.5, 0.7), (0.5, "nan"), (0.5, None)):
        trial = plan.ask(study)
        records = {}
        for seed, value in enumerate(values):
            result = {"status": "finished", "metrics": {} if value is None else {BEST: value}}
            records[f"{trial.number} {seed}"] = Record(tmp_path, result)
        study.runs[trial.number] = [planned("", 0, identity) for identity in records]
        study.tell(dict(list(records.items())[:1]))
        assert study.optuna.trials[-1].state.name == "RUNNING"
        study.tell(records)
    first, *others = study.optuna.trials
    assert first.value == pytest.approx(0.6)
    assert {trial.state.name for trial in others} == {"PRUNED"}


def test_a_setting_that_cannot_be_built_has_no_runs_and_is_not_built_again(tmp_path):
    def refuse(combination, place):
        if combination.labels["model.dropout"] < 0.6:
            raise ValueError("it does not fit")
        return runs_of(combination, place)

    storage = optuna.storages.InMemoryStorage()
    for _ in range(2):
        plan, study = plan_in(tmp_path, refuse, storage)
        assert all(run.labels["model.dropout"] >= 0.6 for run in plan.next_runs({}))
        plan.ask(study)  # as a killed sweep leaves it


def test_a_setting_that_is_drawn_again_is_a_trial_with_its_known_value(tmp_path):
    options = {"model.norm": ["none", "pair"]}
    values = {"none": 0.1, "pair": 0.7}
    labels = tried(tmp_path, lambda found: values[found["model.norm"]], options=options)
    assert len(labels) == 20
    assert tried.study.optuna.best_value == 0.7
