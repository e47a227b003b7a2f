"""What makes two runs one: numbers that can differ do, and nothing else."""

from pathlib import Path

import pytest
import yaml

from gnn_depth.cli.grid_runs import Resolver, plan_of
from gnn_depth.cli.identity import identity
from gnn_depth.cli.sweep import load_grid
from tests.cli.test_sweep import BASE


@pytest.fixture
def known(tmp_path, monkeypatch):
    """``known("--model.dropout=0.5")``: the identity of a run."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(yaml.safe_dump(BASE))
    Path("grid.yaml").write_text("base: base.yaml\n")

    def of(*words):
        (run,) = plan_of(load_grid("grid.yaml"), Path(), list(words), "runs").runs
        return run.place.identity

    return of


@pytest.mark.parametrize(
    "words",
    [
        ["--model.dropout=0.50"],
        ["--model.dropout=5e-1", "--trainer.enable_progress_bar=false"],
        ["--model.layer=gcn", "--model.dropout=0.5"],
        ['--config={"trainer": {"accelerator": "cpu", "max_epochs": 3}, "model": {"dropout": 0.5}}'],
        ["--run.root=elsewhere", "--run.name=other", "--model.dropout=0.5"],
        ["--trainer.default_root_dir=elsewhere", "--trainer.profiler=simple", "--model.dropout=0.5"],
    ],
)
def test_what_changes_no_number_changes_no_identity(known, words):
    assert known(*words) == known("--model.dropout=0.5")


@pytest.mark.parametrize("value", ["0", "0.0", "0e0"])
def test_a_whole_number_where_any_number_may_stand_is_that_number(known, value):
    assert known(f"--model.dropout={value}") == known("--model.dropout=0")


@pytest.mark.parametrize(
    "words",
    [
        ["--data.seed=1"],
        ["--model.optimizer.lr=0.0050001"],
        ["--trainer.max_epochs=4"],
        ["--trainer.precision=64-true"],
        ["--trainer.deterministic=true"],
        ["--trainer.limit_train_batches=1"],  # one batch
        ["--model.norm=pair"],
        ["--model.init=xavier"],
    ],
)
def test_what_may_change_numbers_changes_the_identity(known, words):
    assert known(*words) != known()


def test_one_batch_and_all_batches_are_told_apart(known):
    assert known("--trainer.limit_train_batches=1") != known("--trainer.limit_train_batches=1.0")


@pytest.mark.parametrize("name", ["my_part.py", "my_part"])
def test_an_edited_plugin_makes_other_runs_by_file_or_by_module(tmp_path, monkeypatch, name):
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "my_part.py"
    plugin = str(tmp_path / name) if name.endswith(".py") else name
    found = []
    for content in ("1", "2", "1"):
        file.write_text(content)
        found.append(identity({"plugins": [plugin]}, "data"))
    assert found[0] == found[2] != found[1]


def test_a_plugin_that_was_moved_is_the_same(tmp_path):
    found = set()
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "my.py").write_text("1")
        found.add(identity({"plugins": [str(tmp_path / folder / "my.py")]}, "data"))
    assert len(found) == 1


def test_data_that_draws_from_the_common_random_numbers_is_the_same_in_every_order(tmp_path, known):
    Path("my_random_set.py").write_text(RANDOM_SET)
    resolver = Resolver([str(tmp_path / "my_random_set.py")])
    sets = [{"class_path": "my_random_set.RandomSet", "init_args": {"seed": seed}} for seed in (0, 1)]
    first = [resolver.data_of({"data": data}) for data in sets]
    other = Resolver([])
    assert [other.data_of({"data": data}) for data in reversed(sets)] == first[::-1]


RANDOM_SET = """
import torch

from gnn_depth.data.synthetic import SyntheticCitation


class RandomSet(SyntheticCitation):
    def load(self):
        batch = super().load()
        batch.x = torch.rand_like(batch.x)
        return batch
"""
