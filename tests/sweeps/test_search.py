"""What a search reads from its file, and what it proposes, given results that are made up."""

import pytest
import yaml

from gnn_depth.sweeps.grid import GridError, read_grid
from gnn_depth.sweeps.plan import PlannedRun
from gnn_depth.sweeps.search import Study, Trial
from gnn_depth.sweeps.store import Record, RunKey

RANGES = """
trials: 40
options:
  model.dropout: {low: 0.0, high: 0.8}
  model.optimizer.lr: {low: 1.0e-5, high: 0.1, log: true}
  model.num_layers: {low: 2, high: 64, log: true}
"""


@pytest.fixture(autouse=True)
def silent():
    """Optuna says little; some of these tests need none of it."""
    try:
        import optuna
    except ModuleNotFoundError:
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)


def search_of(text, **more):
    content = {"search": {**yaml.safe_load(text), **more}}
    return read_grid(content, "file").search


def study_of(text, lower_is_better=False, **more):
    grid = read_grid({"search": {**yaml.safe_load(text), **more}}, "file")
    (combination,) = grid.combinations()
    return Study(grid.search, combination, "val/acc", lower_is_better)


def go_on(study, records, trials, value_of):
    """Let a study propose trials; ``value_of`` their labels is the result, None for diverged."""
    while len(study.trials) < trials:
        labels = study.propose(records)
        if labels is None:
            return
        identity = repr(labels)
        study.trials.append(Trial(labels, [PlannedRun(RunKey("", 0, identity), {}, {}, "")]))
        value = value_of(labels)
        result = {"status": "diverged", "metrics": {"val_acc_at_best_val": 0.9}}
        if value is not None:
            result = {"status": "finished", "metrics": {"val_acc_at_best_val": value}}
        records[identity] = Record(None, result)


def tried(study):
    return [trial.labels for trial in study.trials]


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("{options: {a: [1, 2]}, trial: 3}", ("trial",), "Did you mean 'trials'"),
        ("{options: {a: [1, 2]}}", ("trials",), "search needs trials"),
        ("{options: {a: [1, 2]}, trials: 0}", ("trials",), "from 1 to"),
        ("{options: {a: [1, 2]}, trials: true}", ("trials",), "not True"),
        ("{trials: 3}", (), "search needs options"),
        ("{trials: 3, options: {a: []}}", ("options", "a"), "a has no values"),
        ("{trials: 3, options: {a: [1, 1]}}", ("options", "a"), "twice"),
        ("{trials: 3, options: {a: 0.5}}", ("options", "a"), "in a range"),
        ("{trials: 3, options: {a: {low: 0}}}", ("options", "a"), "high of a is a number"),
        ("{trials: 3, options: {a: {low: 1, high: x}}}", ("options", "a"), "not 'x'"),
        ("{trials: 3, options: {a: {low: 0, high: .inf}}}", ("options", "a"), "not inf"),
        ("{trials: 3, options: {a: {low: 2, high: 1}}}", ("options", "a"), "not 2 to 1"),
        ("{trials: 3, options: {a: {low: 1, high: 1}}}", ("options", "a"), "below high"),
        ("{trials: 3, options: {a: {low: 0, high: 1, lg: true}}}", ("options", "a"), "'log'"),
        ("{trials: 3, options: {a: {low: 0, high: 1, log: 2}}}", ("options", "a"), "true or"),
        ("{trials: 3, options: {a: {low: 0, high: 1, log: true}}}", ("options", "a"), "logarithm"),
        ("{trials: 3, options: {seed: [0, 1]}}", ("options", "seed"), "a column of that name"),
        ("{trials: 3, options: {a: [1]}, sampler: tp}", ("sampler",), "Did you mean 'tpe'"),
        ("{trials: 3, options: {a: [1]}, seed: -1}", ("seed",), "not -1"),
        ("[1, 2]", (), "a mapping"),
    ],
)
def test_a_search_that_cannot_be_is_refused_where_it_is_written(text, where, said):
    with pytest.raises(GridError, match=said) as raised:
        read_grid({"search": yaml.safe_load(text)}, "file")
    assert raised.value.where == ("search", *where)


def test_an_option_is_searched_or_an_axis_and_all_trials_count_as_runs():
    search = {"trials": 1000, "options": {"a": [1, 2]}}
    with pytest.raises(GridError, match="an axis"):
        read_grid({"axes": {"a": [1, 2]}, "search": search}, "file")
    with pytest.raises(GridError, match=r"\(3 x 1000 x 100 seeds\)"):
        read_grid({"axes": {"b": [1, 2, 3]}, "search": search, "seeds": 100}, "file")


def test_every_end_and_every_choice_is_among_the_examples():
    search = search_of("{trials: 1, options: {a: {low: 1, high: 5}, b: [x, y, z]}}")
    examples = search.examples()
    assert {labels["a"] for labels in examples} == {1, 5}
    assert {labels["b"] for labels in examples} == {"x", "y", "z"}
    assert len(examples) == 4


def test_numbers_of_a_range_lie_in_it_and_have_few_digits_at_both_of_its_ends():
    pytest.importorskip("optuna")
    study = study_of(RANGES, sampler="random")
    go_on(study, {}, 40, lambda labels: 0.5)
    rates = [labels["model.optimizer.lr"] for labels in tried(study)]
    assert min(rates) < 1e-4
    assert max(rates) > 1e-2
    for labels in tried(study):
        for name, value in labels.items():
            assert study.search.options[name].has(value)
        assert labels["model.dropout"] == round(labels["model.dropout"], 4)
        assert float(f"{labels['model.optimizer.lr']:.4g}") == labels["model.optimizer.lr"]
        assert isinstance(labels["model.num_layers"], int)


def test_a_narrow_range_keeps_the_digits_that_tell_its_numbers_apart():
    pytest.importorskip("optuna")
    study = study_of("{trials: 20, options: {a: {low: 0.99999, high: 1.00001, log: true}}}")
    go_on(study, {}, 20, lambda labels: 0.5)
    assert len(study.trials) == 20


@pytest.mark.parametrize("stopped_after", [1, 7, 15])
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(stopped_after):
    pytest.importorskip("optuna")

    def value_of(labels):
        return None if labels["model.num_layers"] > 40 else 1 - abs(labels["model.dropout"] - 0.3)

    whole = study_of(RANGES)
    go_on(whole, {}, 20, value_of)
    stopped, records = study_of(RANGES), {}
    go_on(stopped, records, stopped_after, value_of)
    later = study_of(RANGES)
    later.trials = stopped.trials
    go_on(later, records, 20, value_of)
    assert tried(later) == tried(whole)
    other = study_of(RANGES, seed=1)
    go_on(other, {}, 1, value_of)
    assert tried(other)[0] != tried(whole)[0]


@pytest.mark.parametrize("lower_is_better", [True, False])
def test_later_trials_are_nearer_to_the_best_and_the_best_is_the_best_value(lower_is_better):
    pytest.importorskip("optuna")
    sign = 1 if lower_is_better else -1
    study, records = study_of(RANGES, lower_is_better), {}
    go_on(study, records, 40, lambda labels: sign * (labels["model.dropout"] - 0.6) ** 2)
    distances = [abs(labels["model.dropout"] - 0.6) for labels in tried(study)]
    assert sum(distances[-20:]) / 2 < 0.6 * sum(distances[:10])
    assert study.best(records).labels == min(
        tried(study), key=lambda labels: abs(labels["model.dropout"] - 0.6)
    )


def test_what_diverged_is_worse_than_everything_and_avoided():
    pytest.importorskip("optuna")

    def value_of(labels):  # where it does not diverge, no value is better than another by much
        return None if labels["model.dropout"] > 0.2 else 0.1 + 1e-3 * labels["model.num_layers"]

    study, records = study_of(RANGES), {}
    go_on(study, records, 40, value_of)
    diverged = [labels["model.dropout"] > 0.2 for labels in tried(study)]
    assert sum(diverged[:10]) > 6
    assert sum(diverged[10:]) < 15, "at random it would be 22 of 30"
    assert study.best(records).labels["model.dropout"] <= 0.2


def test_no_setting_is_tried_twice_and_a_search_without_new_ones_ends():
    pytest.importorskip("optuna")
    study = study_of("{trials: 40, options: {a: [x, {name: y, b: 1}, null], c: {low: 1, high: 4}}}")
    go_on(study, {}, 40, lambda labels: 0.5)
    assert len(study.trials) == 12
    assert {labels["a"] for labels in tried(study)} == {"x", "y b=1", None}
    assert study.propose({}) is None


def test_a_trial_has_the_mean_of_its_seeds_and_none_without_one_of_them():
    runs = [PlannedRun(RunKey("", seed, str(seed)), {}, {}, "") for seed in (0, 1)]
    trial = Trial({}, runs)
    records = {
        str(seed): Record(None, {"status": "finished", "metrics": {"val_acc_at_best_val": value}})
        for seed, value in ((0, 0.5), (1, 0.7))
    }
    assert trial.mean(records, "val_acc_at_best_val") == pytest.approx(0.6)
    assert trial.mean(records, "test_acc_at_best_val") is None
    records["1"].result["metrics"]["val_acc_at_best_val"] = float("nan")
    assert trial.mean(records, "val_acc_at_best_val") is None
    assert trial.mean({"0": records["0"]}, "val_acc_at_best_val") is None


@pytest.mark.parametrize(
    ("axes", "is_mine"),
    [
        ({"n": "pair", "d": 0.2, "k": "x"}, True),
        ({"n": "layer", "d": 0.2, "k": "x"}, False),
        ({"n": "pair", "d": 0.9, "k": "x"}, False),
        ({"n": "pair", "d": True, "k": "x"}, False),
        ({"n": "pair", "d": 0.2, "k": "z"}, False),
        ({"n": "pair", "d": 0.2}, False),
        ({"n": "pair", "d": 0.2, "k": "x", "more": 1}, False),
    ],
)
def test_a_run_belongs_to_a_study_if_its_values_are_those_of_axes_and_ranges(axes, is_mine):
    grid = read_grid(
        {
            "axes": {"n": ["pair"]},
            "search": {"trials": 1, "options": {"d": {"low": 0.0, "high": 0.5}, "k": ["x", "y"]}},
        },
        "file",
    )
    (combination,) = grid.combinations()
    study = Study(grid.search, combination, "val/acc", False)
    found = study.labels_in(Record(None, {"axes": axes}))
    assert found == ({"d": 0.2, "k": "x"} if is_mine else None)
