"""``gnn-depth sweep`` with a search: its trials are ordinary runs."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver
from gnn_depth.cli.sweep import SEARCH
from gnn_depth.sweeps.store import Store
from tests.cli.test_sweep import grid  # noqa: F401  (a fixture)

pytest.importorskip("optuna")

OPTIONS = {
    "model.dropout": {"low": 0.0, "high": 0.8},
    "model.norm": ["none", {"name": "pair", "scale": 2.0}],
}


def results(root="runs"):
    found = [json.loads(path.read_text()) for path in Path(root).glob("grid/*/seed_*/result.json")]
    return sorted(found, key=lambda result: (result["place"], result["seed"]))


def values(found):
    return [(result["axes"], result["seed"], result["metrics"]) for result in found]


@pytest.mark.usefixtures("pool_here")
def test_a_stopped_search_goes_on_and_its_best_setting_is_a_command(
    done,
    gnn_depth,
    grid,  # noqa: F811
):
    grid(search={"trials": 1, "options": OPTIONS}, seeds=2)
    done("sweep", "grid.yaml")
    first = results()
    assert [result["status"] for result in first] == ["finished"] * 2
    grid(search={"trials": 2, "options": OPTIONS}, seeds=2)
    answer = gnn_depth("sweep", "grid.yaml", "--dry-run")
    assert "4 runs of 2 trials x 2 seeds" in answer.out
    assert answer.out.splitlines()[-1] == "in all: 2 finished, 2 to run"
    answer = done("sweep", "grid.yaml")
    found = results()
    assert found[:2] == first  # finished trials are not run again

    # At once, it is the same search.
    done("sweep", "grid.yaml", "--root", "others")
    assert values(results("others")) == values(found)

    means = {}
    for result in found:
        name = json.dumps(result["axes"])
        means[name] = means.get(name, 0) + result["metrics"]["val_acc_at_best_val"] / 2
    best = json.loads(max(means, key=means.get))
    report, command = answer.out.splitlines()[-1].split(", ")
    assert report == f"best val_acc_at_best_val: {max(means.values()):.4f}"
    words = shlex.split(command)
    assert words[:3] == ["gnn-depth", "fit", "--config"]
    config = Resolver([]).resolve(read_arguments(words[2:]))
    assert config["model"]["dropout"] == best["model.dropout"]
    assert config["seed_everything"] == 0


@pytest.mark.usefixtures("pool_here")
def test_each_combination_of_the_axes_has_its_own_trials_which_begin_alike(
    done,
    grid,  # noqa: F811
):
    axes = {"model.skip": ["none", "residual"]}
    options = {"model.dropout": OPTIONS["model.dropout"]}
    name = grid(axes=axes, search={"trials": 2, "options": options})
    answer = done("sweep", name)
    tried = {"none": [], "residual": []}
    for result in results():
        tried[result["axes"]["model.skip"]].append(result["axes"]["model.dropout"])
    assert tried["none"] == tried["residual"]
    assert len(set(tried["none"])) == 2
    assert answer.out.count("best val_acc_at_best_val: ") == 2

    done("sweep", name, "--subset", "skip=none", "--force")
    assert len(list(Path("runs/archive").glob("grid/*/seed_*"))) == 2


def test_what_no_trial_could_use_is_refused_before_the_first_run(refused, grid):  # noqa: F811
    search = {"trials": 3, "options": {"model.norm": ["par", "none"]}}
    assert "'pair'" in refused("sweep", grid(search=search), "--dry-run")


@pytest.mark.usefixtures("pool_here")
def test_a_search_needs_its_extra_and_to_be_alone(refused, grid, monkeypatch):  # noqa: F811
    name = grid(search={"trials": 3, "options": OPTIONS})
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "optuna", None)
        patch.delitem(sys.modules, "gnn_depth.sweeps.search", raising=False)
        assert "gnn-depth[optuna]" in refused("sweep", name)
    with Store("elsewhere", "grid").claim(SEARCH) as mine:
        assert mine
        assert "another process" in refused("sweep", name, "--root", "elsewhere")


def test_a_metric_of_which_less_is_better_is_searched_for_the_least():
    resolver = Resolver([])
    _, task = resolver.check(resolver.resolve(read_arguments(["--model.best_metric=loss"])))
    assert (task.best, task.lower_is_better) == ("loss", True)
