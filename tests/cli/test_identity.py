"""What makes two runs one: numbers that can differ do, and nothing else."""

import json
from importlib import import_module
from shlex import split

import pytest

from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import Resolver
from gnn_depth.training.identity import hparams, identity
from tests.cli.test_sweep import BASE


@pytest.fixture(scope="module")
def known():
    """``known("--model.dropout=0.5")``: the identity of a run."""
    resolver = Resolver([])

    def of(*words):
        config = resolver.resolve(read_arguments([f"--config={json.dumps(BASE)}", *words]))
        return identity(config, resolver.check(config)[0])

    return of


@pytest.mark.parametrize(
    "words",
    [
        "--model.dropout=5e-1 --trainer.enable_progress_bar=false",
        "--config='{model: {dropout: 0.5}}' --run.root=elsewhere --run.name=other",
        "--trainer.default_root_dir=elsewhere --trainer.profiler=simple --model.dropout=0.50",
    ],
)
def test_what_changes_no_number_changes_no_identity(known, words):
    assert known(*split(words)) == known("--model.dropout=0.5")


def test_a_whole_number_is_that_number_except_where_it_counts_batches(known):
    assert (
        known("--model.dropout=0") == known("--model.dropout=0.0") == known("--model.dropout=0e0")
    )
    assert known("--trainer.limit_train_batches=1") != known("--trainer.limit_train_batches=1.0")


@pytest.mark.parametrize(
    "word",
    [
        "--data.seed=1",
        "--model.optimizer.lr=0.0050001",
        "--trainer.precision=64-true",
        "--trainer.deterministic=true",
        "--model.norm=pair",
    ],
)
def test_what_may_change_numbers_changes_the_identity(known, word):
    assert known(word) != known()


def test_a_plugin_is_its_content_wherever_it_lies_and_however_it_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "moved").mkdir()
    file, moved = tmp_path / "my_part.py", tmp_path / "moved/my_part.py"
    moved.write_text("1")
    for plugin in (str(file), "my_part"):
        found = []
        for content in ("1", "2", "1"):
            file.write_text(content)
            found.append(identity({"plugins": [plugin]}, "data"))
        assert found[0] == found[2] != found[1]
    file.write_text("1")
    assert identity({"plugins": [str(moved)]}, "data") == identity({"plugins": [str(file)]}, "data")


def test_the_code_of_an_installed_part_counts_for_the_runs_that_use_it(
    tmp_path, monkeypatch, own_registry
):
    package = tmp_path / "installed_parts"
    package.mkdir()
    text = "import gnn_depth\n\n@gnn_depth.register('norm', 'installed')\n"
    (package / "__init__.py").write_text(f"{text}class Installed(gnn_depth.FeatureNorm): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("gnn_depth.training.identity.INSTALLED", (tmp_path,))
    import_module(package.name)
    found = []
    for extra in ("", "# 2\n"):
        (package / "more.py").write_text(extra)
        for norm in ("installed", "layer"):
            found.append(identity({"model": {"norm": norm}}, "data"))
    assert (found[0] != found[2], found[1] == found[3]) == (True, True)


def test_the_code_of_a_users_data_module_counts(tmp_path, monkeypatch):
    file = tmp_path / "loaders_of_mine.py"
    file.write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("loaders_of_mine")
    config = {"data": {"class_path": "loaders_of_mine.Mine"}}
    before = identity(config, None)
    assert identity(config, None) == before
    file.write_text("class Mine: seed = 1\n")
    assert identity(config, None) != before


def test_an_object_that_was_given_in_python_makes_a_run_unique():
    config = {"trainer": {"callbacks": [{"class_path": "a.B", "given_in_python": True}]}}
    assert identity(config, "data") != identity(config, "data")


def test_a_part_and_its_options_stand_at_the_key_of_the_part():
    config = {
        "seed_everything": 3,
        "data": {"class_path": "Planetoid", "init_args": {"name": "Cora", "root": None}},
        "model": {
            "layer": {"name": "gat", "heads": 8},
            "norm": [{"name": "lipschitz", "scale": 4.0}],
            "optimizer": {"class_path": "Adam", "init_args": {"betas": [0.9, 0.999]}},
        },
        "trainer": {
            "max_steps": -1,  # its default
            "limit_train_batches": 1.0,
            "limit_val_batches": 1,
            "default_root_dir": "elsewhere",
            "callbacks": [
                {"class_path": "GradientSimilarity", "init_args": {"every": 2}},
                {"class_path": "lightning.pytorch.callbacks.LearningRateMonitor"},
                {"class_path": "EarlyStopping", "init_args": {"patience": 3}},
            ],
        },
        "plugins": [],
    }
    assert hparams(config) == {
        "seed_everything": 3,
        "data": "Planetoid",
        "data.name": "Cora",
        "model.layer": "gat heads=8",
        "model.layer.name": "gat",
        "model.layer.heads": 8,
        "model.norm": "lipschitz scale=4.0",
        "model.norm.0.name": "lipschitz",
        "model.norm.0.scale": 4.0,
        "model.optimizer": "Adam",
        "model.optimizer.betas": "[0.9, 0.999]",
        "trainer.limit_train_batches": 1.0,
        "trainer.limit_val_batches": 1,
        "trainer.callbacks.0": "EarlyStopping",
        "trainer.callbacks.0.patience": 3,
    }
