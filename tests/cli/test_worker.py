"""One run of a sweep, in this process."""

import gc
import json

import lightning as L
import pytest
import yaml

from gnn_depth.cli.plans import make_plan
from gnn_depth.cli.sweep import load_grid
from gnn_depth.cli.worker import OUTPUT, work
from gnn_depth.data.base import NodeBatch
from gnn_depth.sweeps.store import Store
from gnn_depth.sweeps.task import ELSEWHERE, Task
from tests.cli.test_sweep import BASE


@pytest.fixture
def task(tmp_path):
    """``task("--model.dropout=0.5")``: the task of a small run."""
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    (tmp_path / "grid.yaml").write_text("base: base.yaml\n")

    class Options:
        root = tmp_path / "runs"

    def make(*overrides, retries=2):
        grid = load_grid(str(tmp_path / "grid.yaml"))
        (run,) = make_plan(grid, tmp_path, list(overrides), Options, force=False).runs
        stop = str(tmp_path / "stop")
        return Task(
            str(Options.root), "grid", run.place, run.labels, run.config, run.data_sha256, ("sweep",), retries, stop
        )

    return make


def result_of(outcome):
    return json.loads((outcome.folder / "result.json").read_text())


def test_a_run_leaves_its_result_and_what_it_printed_and_is_not_run_again(task):
    outcome = work(task())
    assert (outcome.status, outcome.new) == ("finished", True)
    assert outcome.value("test_acc_at_best_val") == result_of(outcome)["metrics"]["test_acc_at_best_val"]
    assert "epoch 3/3" in (outcome.folder / OUTPUT).read_text()
    again = work(task())
    assert (again.status, again.new, again.folder) == ("finished", False, outcome.folder)


def test_of_many_runs_the_last_alone_stays_in_memory(task):
    for seed in range(3):
        assert work(task(f"--data.seed={seed}")).new
    left = [type(item) for item in gc.get_objects() if type(item) in (NodeBatch, L.Trainer)]
    assert len(left) == len(set(left))


def test_a_run_that_another_process_works_on_is_left_to_it(task):
    mine = task()
    with Store(mine.root, mine.sweep).claim(mine.place.identity):
        assert work(mine).status == ELSEWHERE


def test_a_run_whose_process_died_is_archived_and_started_again_a_bounded_number_of_times(task, tmp_path):
    mine = task()
    store = Store(mine.root, mine.sweep)
    for attempt in (1, 2):
        folder = store.begin(mine.place, {**mine.facts, "attempt": attempt})
        if attempt < 2:
            store.archive(store.find(mine.place))
    outcome = work(mine)
    assert (outcome.status, result_of(outcome)["attempt"]) == ("finished", 3)
    assert len(list((tmp_path / "runs/archive").rglob("result.json"))) == 2

    other = task("--model.dropout=0.5", retries=0)
    folder = store.begin(other.place, {**other.facts, "attempt": 1})
    outcome = work(other)
    assert (outcome.status, outcome.folder) == ("failed", folder)
    assert "its process died 1 times" in outcome.reason


def test_a_run_that_cannot_be_built_fails_with_the_reason(task):
    outcome = work(task("--model.layer=gcn", "--model.norm=lipschitz"))
    assert outcome.status == "failed"
    assert "acts on attention scores" in outcome.reason
    assert result_of(outcome)["reason"] == outcome.reason


def test_a_run_that_is_asked_to_stop_is_interrupted_and_its_checkpoint_is_kept(task, tmp_path):
    mine = task("--trainer.max_epochs=100000")
    (tmp_path / "stop").touch()
    assert work(mine).status == "interrupted"
    assert not list((tmp_path / "runs").rglob("result.json")), "a run was begun although it was to stop"


def test_a_running_training_stops_when_the_file_appears(task, tmp_path, monkeypatch):
    from gnn_depth.cli import worker

    class Asked(worker.StopWhenAsked):
        def on_train_batch_end(self, trainer, *rest):
            if trainer.current_epoch == 2:
                (tmp_path / "stop").touch()
            self._looked = float("-inf")
            super().on_train_batch_end(trainer, *rest)

    monkeypatch.setattr(worker, "StopWhenAsked", Asked)
    outcome = work(task("--trainer.max_epochs=1000"))
    assert outcome.status == "interrupted"
    assert result_of(outcome)["epochs"] == 2
    assert (outcome.folder / "checkpoints" / "last.ckpt").exists()
