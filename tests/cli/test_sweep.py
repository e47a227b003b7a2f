"""Planning a sweep: what it would run, and what it refuses."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import plan_of
from gnn_depth.cli.sweep import chosen_part, load_grid

DATA = {
    "class_path": "SyntheticCitation",
    "init_args": {"num_nodes": 60, "num_edges": 120, "num_features": 16, "num_classes": 3}
    | {"num_train_per_class": 5, "num_val": 10, "num_test": 10},
}
BASE = {
    "data": DATA,
    "model": {"hidden_channels": 8},
    "trainer": {"max_epochs": 3, "accelerator": "cpu"},
}


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """``grid(axes=...)``: a grid file over a small base."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(yaml.safe_dump(BASE))

    def write(**content):
        Path("grid.yaml").write_text(
            yaml.safe_dump({"base": "base.yaml"} | content, sort_keys=False)
        )
        return "grid.yaml"

    return write


def test_a_dry_run_names_every_group_and_makes_nothing(done, grid):
    # An initialisation that computes with what it draws cannot be tried without numbers.
    name = grid(
        axes={"model.num_layers": [2, 3], "model.init": ["xavier", "balanced_xavier"]}, seeds=2
    )
    answer = done("sweep", name, "--dry-run")
    assert "8 runs of 2 model.num_layers x 2 model.init x 2 seeds, in runs/grid" in answer.out
    assert [line.split()[0] for line in answer.out.splitlines()[1:5]] == [
        f"num_layers={layers},init={init}"
        for layers in (2, 3)
        for init in ("xavier", "balanced_xavier")
    ]
    assert answer.out.splitlines()[-1] == "in all: 8 to run"
    assert {path.name for path in Path().iterdir()} == {"base.yaml", "grid.yaml"}


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ({"axes": {"model.num_layer": [1]}}, [], ["num_layer=1", "'model.num_layers'"]),
        ({"axes": {"depth": {"a": {"model.num_layers": 2}, "b": {}}}}, [], ["skip: true"]),
        ({"base": "bse.yaml"}, [], ["bse.yaml"]),
        ({"sedes": 3}, [], ["grid.yaml", "'seeds'"]),
        ({"seeds": 2, "per_seed": {"trainer.devices": [1, 2]}}, [], ["trainer.devices is for"]),
        ({}, ["--trainer.fast_dev_run", "true"], ["trainer.fast_dev_run"]),
        ({"axes": {"model.num_layers": [0]}}, [], ["grid grid, num_layers=0: ", "at least 1"]),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(refused, grid, content, words, said):
    message = refused("sweep", grid(**content), "--dry-run", *words)
    assert all(text in message for text in said)


DEPTH = {"depth": {"model.num_layers": [2, 3], "model.dropout": [0.1, 0.2]}}
OF_SECTIONS = {"norm": {"a": {"model": {"norm": "pair"}}, "b": {"model": {"norm": []}}}}


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ({"axes": DEPTH}, ["--subset", "depth=2", "--model.dropout=0.8"], "for depth=2"),
        ({"axes": OF_SECTIONS}, ["--model.norm", "batch"], "for norm=a"),
        ({"per_seed": {"data.init_args.seed": [5]}}, ["--data.seed", "7"], "for all"),
        (
            {"search": {"trials": 2, "options": {"model.norm.scale": [1.0, 2.0]}}},
            ["--model.norm", "pair"],
            "for scale=1",
        ),
    ],
)
def test_what_a_grid_varies_is_not_overridden(refused, grid, content, words, said):
    message = refused("sweep", grid(**content), "--dry-run", *words)
    option = next(word for word in words if word.startswith(("--model", "--data")))
    assert f"{option.partition('=')[0]} would override" in message
    assert said in message


def test_of_options_and_sections_that_set_the_same_the_later_one_wins(refused, grid):
    axes = {"depth": {"model.num_layers": [2, 3], "model.norm": ["batch", "layer"]}}
    late = {"model": {"norm": {"name": "pair", "scale": 3}}}
    name = grid(axes=axes, rules=[{"when": {"depth": [3, 2]}, "set": late}])
    plan = plan_of(load_grid(name), read_arguments([]), "runs")
    assert [run.config["model"]["norm"] for run in plan.runs] == [
        [{"name": "pair", "scale": 3}]
    ] * 2
    axes["depth"]["model.norm"] = ["pair", "pair"]
    axes["model.norm.scale"] = [1.0, 2.0]  # which the section takes away: the labels would be wrong
    name = grid(axes=axes, rules=[{"when": {"depth": [3, 2]}, "set": late}])
    assert "has no effect" in refused("sweep", name, "--dry-run")


def test_other_files_are_no_grid_and_a_grid_no_config(refused, grid):
    name = grid()
    assert "config of one training" in refused("sweep", "base.yaml")
    assert "gnn-depth sweep" in refused("fit", "--config", name)


def test_an_engine_needs_its_options_and_its_extra(refused, grid, monkeypatch):
    assert "--array=1-8" in refused("sweep", grid(), "--engine=slurm")
    assert "--address" in refused("sweep", grid(), "--engine=dask")
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "gnn_depth.sweeps.cluster", raising=False)
    assert "gnn-depth[cluster]" in refused(
        "sweep", grid(), "--engine=dask", "--address=tcp://127.0.0.1:8786"
    )


LABELS = {
    "a,b": {},
    "a": {"model.num_layers": 3},
    "c=d": {"model.num_layers": 4},
    None: {"model.num_layers": 5},
}


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["m=a,c=d"], ["a", "c=d"]),
        (["m=null", "m=a,b"], ["a,b", None]),
        (["m=a", "m=null"], ["a", None]),
    ],
)
def test_a_subset_adds_up_and_takes_labels_with_commas(grid, words, labels):
    chosen = chosen_part(load_grid(grid(axes={"m": LABELS}, seeds=2)), words, None)
    assert list(chosen.axes["m"]) == labels


def test_a_damaged_result_is_a_warning_and_one_of_another_version_refused(refused, done, grid):
    path = Path("runs/grid/all/seed_0-a/result.json")
    path.parent.mkdir(parents=True)
    path.write_text('{"for')
    answer = done("sweep", grid(), "--dry-run")
    assert answer.err.startswith(f"warning: {path} is truncated or damaged")
    result = {
        "format": 1,
        "status": "finished",
        "identity": "a",
        "packages": {"gnn-depth": "0.0.1"},
    }
    path.write_text(json.dumps(result))
    assert "0.0.1" in refused("sweep", grid(), "--workers", "1")


@pytest.mark.usefixtures("pool_here")
def test_a_table_averages_over_splits_that_belong_to_seeds(done, grid):
    values = {"data.seed": [7, 8], "model.dropout": [0.0, 0.5]}
    name = grid(axes={"model.num_layers": [2, 3]}, seeds=2, per_seed=values)
    done("sweep", name)
    found = set()
    for path in Path("runs").rglob("config.yaml"):
        config = yaml.safe_load(path.read_text())
        seeds = config["seed_everything"], config["data"]["init_args"]["seed"]
        found.add((*seeds, config["model"]["dropout"]))
    assert found == {(0, 7, 0.0), (1, 8, 0.5)}
    answer = done("table", "runs")
    assert "over seeds, n=2" in answer.out


SBATCH = """#!/bin/bash
# Runs both jobs of an array at once, as SLURM does on two machines.
echo "$@" > arguments
for job in 1 2; do bash "${@: -1}" > "job_$job" 2>&1 & done
wait
echo "Submitted batch job 7"
"""


@pytest.mark.slow
def test_an_array_of_jobs_does_every_run_once(done, grid, tmp_path, monkeypatch):
    command = tmp_path / "bin" / "sbatch"
    command.parent.mkdir()
    command.write_text(SBATCH)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    name = grid(axes={"model.num_layers": [2, 3]}, seeds=2)
    words = ["--engine=slurm", "--sbatch=--array=1-2", "--workers=1"]
    answer = done("sweep", name, *words)
    assert "Submitted batch job 7" in answer.out
    assert "--array=1-2" in Path("arguments").read_text()
    jobs = [Path(f"job_{job}").read_text() for job in (1, 2)]
    assert any("done: 4 finished" in job for job in jobs), jobs
    results = list(Path("runs/grid").glob("*/seed_*/result.json"))
    assert [json.loads(path.read_text())["attempt"] for path in results] == [1] * 4
