"""Planning a sweep: what it would run, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gnn_depth.cli.grid_runs import plan_of
from gnn_depth.cli.sweep import load_grid, parser, part, split_overrides

DATA = {
    "class_path": "SyntheticCitation",
    "init_args": {"num_nodes": 60, "num_edges": 120, "num_features": 16, "num_classes": 3}
    | {"num_train_per_class": 5, "num_val": 10, "num_test": 10},
}
BASE = {"data": DATA, "model": {"hidden_channels": 8}, "trainer": {"max_epochs": 3, "accelerator": "cpu"}}

PLUGIN = """
from gnn_depth import FeatureNorm, register


@register("norm", "of_an_axis")
class OfAnAxis(FeatureNorm):
    def forward(self, x, graph):
        return x
"""


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """``grid(axes=...)``: a grid file over a small base."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(yaml.safe_dump(BASE))

    def write(**content):
        Path("grid.yaml").write_text(yaml.safe_dump({"base": "base.yaml"} | content, sort_keys=False))
        return "grid.yaml"

    return write


@pytest.fixture
def dry(gnn_depth, grid):
    def run(*words, **content):
        answer = gnn_depth("sweep", grid(**content), "--dry-run", *words)
        assert answer.code == 0, answer.err
        return answer.out

    return run


def test_a_dry_run_names_every_group_and_the_number_of_runs_and_makes_nothing(dry):
    out = dry(axes={"model.num_layers": [2, 3], "model.norm": ["none", "pair"]}, seeds=2)
    assert "8 runs of 2 model.num_layers x 2 model.norm x 2 seeds, in runs/grid" in out
    assert [line.split()[0] for line in out.splitlines()[1:5]] == [
        f"num_layers={layers},norm={norm}" for layers in (2, 3) for norm in ("none", "pair")
    ]
    assert out.splitlines()[-1] == "in all: 8 to run"
    assert {path.name for path in Path().iterdir()} == {"base.yaml", "grid.yaml"}


def test_a_dry_run_accepts_initialisations_that_compute_with_drawn_numbers(dry):
    assert "in all: 2 to run" in dry(axes={"model.init": ["xavier", "balanced_xavier"]}, seeds=1)


def test_a_dry_run_refuses_what_no_run_could_train_with(refused, grid):
    for option, value, said in (
        ("model.num_layers", 0, "from 1 to"),
        ("model.hidden_channels", -8, "at least 1"),
        ("model.optimizer", "SparseAdam", "dense"),
        ("model.scheduler", {"never": {"model.scheduler": "StepLR", "model.scheduler.step_size": 0}}, "StepLR"),
        ("trainer.gradient_clip_val", -1, "at least 0"),
        ("run.save_every_minutes", 0, "above 0"),
    ):
        values = value if isinstance(value, dict) else [value]
        answer = refused("sweep", grid(axes={option: values}), "--dry-run")
        assert f"{option.rpartition('.')[2]}={next(iter(values))}: " in answer
        assert said in answer


def test_the_workers_import_while_the_driver_has_not_begun_to():
    script = "import sys, gnn_depth.cli.sweep, gnn_depth.cli.reproduce; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not {"torch", "lightning"} & set(done.stdout.split())


def test_options_of_fit_are_told_from_those_of_the_sweep_wherever_they_stand():
    words = [
        "--data.root",
        "x",
        "grid.yaml",
        "--trainer.max_epochs=3",
        "--workers",
        "2",
        "--model",
        "{}",
        "--plugins",
        "p",
    ]
    overrides, rest = split_overrides(words)
    assert overrides == ["--data.root", "x", "--trainer.max_epochs=3", "--model", "{}", "--plugins", "p"]
    assert rest == ["grid.yaml", "--workers", "2"]


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ({"axes": {"model.num_layer": [1]}}, [], ["num_layer=1", "'--model.num_layer'", "--model.num_layers"]),
        ({"axes": {"model.norm": ["lipshitz"]}}, [], ["'lipshitz'", "'lipschitz'"]),
        ({"axes": {"model.num_layers": ["two"]}}, [], ["a whole number"]),
        ({"axes": {"model.num_layers": []}}, [], ["grid.yaml:3", "empty"]),
        ({"axes": {"depth": {"a": {"model.num_layers": 2}, "b": {}}}}, [], ["depth=a", "depth=b", "skip: true"]),
        ({"axes": {"m": {"a": {"model": {"num_layer": 2}}}}}, [], ["num_layer"]),
        ({"base": "bse.yaml"}, [], ["bse.yaml"]),
        ({"sedes": 3}, [], ["grid.yaml:2", "'seeds'"]),
        ({}, ["--worker", "2"], ["'--worker'", "'--workers'"]),
        ({}, ["--workers", "0"], ["--workers", "1"]),
        ({}, ["--engine", "dsk"], ["'dask'"]),
        ({}, ["--model.hidden", "3"], ["'--model.hidden'"]),
        ({}, ["--subset", "depth"], ["AXIS=VALUE"]),
        ({"axes": {"model.num_layers": [1]}}, ["--subset", "num_layers=2"], ["'2'", "Available: 1"]),
        ({}, ["--trainer.devices", "2"], ["trainer.devices is 2"]),
        ({}, ["--trainer.fast_dev_run", "true"], ["trainer.fast_dev_run"]),
        ({"axes": {"m": {"a": {"plugins": ["nope.py"]}}}}, [], ["nope.py"]),
        ({"axes": {"data.split": [0]}}, [], ["'split'"]),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_runs(refused, grid, content, words, said):
    message = refused("sweep", grid(**content), "--dry-run", *words)
    assert all(text in message for text in said)


def test_a_config_of_one_run_is_no_grid_and_a_grid_no_config(refused, grid):
    name = grid()
    assert "gnn-depth fit --config base.yaml" in refused("sweep", "base.yaml")
    assert "gnn-depth sweep" in refused("fit", "--config", name)


def test_an_empty_file_is_no_grid(refused, grid):
    grid()
    Path("empty.yaml").write_text("# later\n")
    assert "empty.yaml" in refused("sweep", "empty.yaml", "--dry-run")


LABELS = {"a,b": {}, "a": {"model.num_layers": 3}, "c=d": {"model.num_layers": 4}, None: {"model.num_layers": 5}}


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        (["m=a", "--seeds=1"], ["a"]),
        (["m=a,b"], ["a,b"]),
        (["m=a,c=d"], ["a", "c=d"]),
        (["m=null,a,b"], ["a,b", None]),
        (["m=a", "m=null"], ["a", None]),
        (["m=a", "--subset", "m=null"], ["a", None]),
    ],
)
def test_a_subset_adds_up_and_takes_labels_with_commas(grid, words, labels):
    options = parser().parse_args([grid(axes={"m": LABELS}, seeds=2), "--subset", *words])
    chosen = part(load_grid(options.file), options)
    assert list(chosen.axes[0].values) == labels
    assert len(chosen.seeds) == (1 if "--seeds=1" in words else 2)


def test_an_axis_may_bring_a_plugin_which_is_sought_from_the_folder_of_the_grid(dry, tmp_path):
    (tmp_path / "of_an_axis.py").write_text(PLUGIN)
    out = dry(axes={"m": {"a": {"plugins": ["of_an_axis.py"], "model.norm": "of_an_axis"}, "b": {}}})
    assert "in all: 2 to run" in out


def test_a_damaged_result_is_warned_of_in_one_line(gnn_depth, grid):
    path = Path("runs/grid/all/seed_0-a/result.json")
    path.parent.mkdir(parents=True)
    path.write_text('{"for')
    answer = gnn_depth("sweep", grid(), "--dry-run")
    assert answer.code == 0
    (line,) = answer.err.splitlines()
    assert line.startswith(f"warning: {path} is damaged")


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(refused, grid):
    Path("file").touch()
    answer = refused("sweep", grid(), "--root", "file", "--workers", "1")
    assert "'file/grid'" in answer
    assert "--root" in answer


def test_results_of_another_version_are_refused_with_the_way_out(gnn_depth, grid):
    result = {"format": 1, "status": "finished", "identity": "a", "packages": {"gnn-depth": "0.0.1"}}
    folder = Path("runs/grid/all/seed_0-a")
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    answer = gnn_depth("sweep", grid(), "--workers", "1")
    assert answer.code == 2
    assert "0.0.1" in answer.err
    assert "--force" in answer.err


def test_dask_needs_an_address_and_an_address_needs_dask(refused, grid):
    assert "--address" in refused("sweep", grid(), "--engine", "dask")
    assert "--engine dask" in refused("sweep", grid(), "--address", "tcp://localhost:1")


def test_the_identity_is_that_of_a_fit_of_the_same_and_knows_data_seed_and_options(grid, gnn_depth):
    def planned(*words):
        name = grid(axes={"model.num_layers": [2, 3]}, seeds=2)
        return plan_of(load_grid(name), Path(), list(words), "runs").runs

    runs = planned()
    assert len({run.place.identity for run in runs}) == 4
    again = planned("--trainer.enable_progress_bar", "false")
    assert [run.place.identity for run in again] == [run.place.identity for run in runs]
    other = planned("--data.seed", "1")
    assert not {run.place.identity for run in other} & {run.place.identity for run in runs}
    answer = gnn_depth("fit", "--config", "base.yaml", "--model.num_layers", "3", "--seed_everything", "1")
    assert answer.code == 0, answer.err
    (result,) = Path("runs").rglob("result.json")
    assert json.loads(result.read_text())["identity"] == runs[3].place.identity


def test_without_the_cluster_extra_dask_is_refused_with_its_name(refused, grid, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "gnn_depth.sweeps.cluster", raising=False)
    assert "gnn-depth[cluster]" in refused("sweep", grid(), "--engine=dask", "--address=tcp://127.0.0.1:8786")
