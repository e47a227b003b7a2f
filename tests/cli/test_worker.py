"""One run of a sweep, in this process."""

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import lightning as L
import pytest
import torch
import yaml

from gnn_depth.cli.plans import make_plan
from gnn_depth.cli.sweep import load_grid
from gnn_depth.cli.worker import OUTPUT, work
from gnn_depth.data.base import NodeBatch
from gnn_depth.sweeps.store import Store
from gnn_depth.sweeps.task import ELSEWHERE, Task
from gnn_depth.training.recorder import RunRecorder
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
    assert result_of(outcome)["epochs"] == 3
    assert (outcome.folder / "checkpoints" / "last.ckpt").exists()


BAD = """
import lightning as L
import torch


class Untidy(L.Callback):
    def on_validation_epoch_start(self, trainer, module):
        torch.set_default_dtype(torch.float64)
        torch.set_float32_matmul_precision("medium")
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = True
        raise KeyError("untidy")


class Leaves(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        raise SystemExit(3)
"""


@pytest.fixture
def bad(tmp_path):
    """``bad("Untidy")``: options of a run with a callback that misbehaves."""
    (tmp_path / "my_bad.py").write_text(BAD)

    def words(name):
        callbacks = json.dumps([{"class_path": f"my_bad.{name}"}])
        return f"--plugins={tmp_path / 'my_bad.py'}", f"--trainer.callbacks={callbacks}"

    yield words
    sys.modules.pop("my_bad", None)


def test_a_run_after_others_has_the_numbers_of_one_in_a_new_process(task, bad, tmp_path):
    """Whatever the others were: diverged, failed, of another precision, of a later seed."""
    before = [
        ("--model.optimizer.lr=1e30",),
        ("--trainer.benchmark=true",),
        ("--trainer.deterministic=true",),
        ("--trainer.precision=64-true",),
        ("--trainer.precision=bf16-mixed",),
        bad("Untidy"),
        ("--data.seed=5",),
    ]
    assert [work(task(*words)).status for words in before] == [*["diverged", *["finished"] * 4, "failed", "finished"]]
    outcome = work(task("--model.dropout=0.5", "--model.norm=pair"))
    command = [sys.executable, "-m", "gnn_depth", "fit", f"--config={outcome.folder / 'config.yaml'}"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (fresh,) = (json.loads(p.read_text()) for p in tmp_path.glob("runs/config/*/result.json"))
    assert fresh["metrics"] == result_of(outcome)["metrics"]
    assert fresh["identity"] == result_of(outcome)["identity"]


def test_a_run_leaves_the_settings_of_the_process_as_they_were(task, bad, monkeypatch):
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)

    def settings():
        return torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()

    before = settings(), torch.backends.cudnn.benchmark
    mine = task(*bad("Untidy"))
    variables = dict(os.environ)
    assert work(mine).status == "failed"
    assert (settings(), torch.backends.cudnn.benchmark) == before
    assert dict(os.environ) == variables


def test_a_run_that_calls_exit_is_no_result_and_can_be_told(task, bad):
    outcome = work(task(*bad("Leaves")))
    assert (outcome.status, outcome.reason) == ("interrupted", "3")


PLUGIN = """
import lightning as L
import torch


class Shrink(L.Callback):
    def on_train_epoch_start(self, trainer, module):
        with torch.no_grad():
            for weight in module.parameters():
                weight /= {factor}
"""


@pytest.mark.parametrize("by_module", [False, True])
def test_an_edited_plugin_is_imported_anew_by_a_worker_that_has_it_already(
    task, tmp_path, monkeypatch, own_registry, by_module
):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "my_part.py"
    plugin = "my_part" if by_module else str(file)
    found = []
    for factor in ("1.0", "100.0", "1.0"):
        file.write_text(PLUGIN.format(factor=factor))
        outcome = work(task(f"--plugins={plugin}", '--trainer.callbacks=[{"class_path": "my_part.Shrink"}]'))
        assert outcome.status == "finished", outcome.reason
        found.append((outcome.folder, outcome.metrics["train/loss"]))
    sys.modules.pop("my_part")
    assert found[0] == found[2]
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_a_plugin_that_was_edited_after_planning_is_not_recorded_as_what_it_was(task, bad, tmp_path):
    planned = task(*bad("Untidy"))
    (tmp_path / "my_bad.py").write_text(BAD.replace("3", "4"))
    outcome = work(planned)
    assert outcome.status == "failed"
    assert "was edited after the sweep had been planned" in outcome.reason


def test_a_full_disk_at_the_end_of_a_run_is_a_failure_that_is_tried_again(task, monkeypatch):
    from gnn_depth.training import recorder

    def full(folder, result):
        if result["status"] != "running":
            raise OSError(28, "No space left on device")

    mine = task()
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "write_result", full)
        outcome = work(mine)
    assert outcome.status == "failed"
    assert "No space left" in outcome.reason
    again = work(mine)
    assert (again.status, result_of(again)["attempt"]) == ("finished", 2)


def test_what_says_finished_has_its_checkpoints(task, monkeypatch):
    seen = []

    def watched(self, trainer):
        seen.append(json.loads((self.folder / "result.json").read_text())["status"])
        original(self, trainer)

    original = RunRecorder._save_checkpoints
    monkeypatch.setattr(RunRecorder, "_save_checkpoints", watched)
    assert work(task()).status == "finished"
    assert seen == ["running"]


def test_a_measured_run_may_diverge_and_leaves_neither_files_nor_settings(task, tmp_path, monkeypatch):
    from gnn_depth.cli.cost import measure

    monkeypatch.chdir(tmp_path)
    saver = '[{"class_path": "lightning.pytorch.callbacks.ModelCheckpoint"}]'
    mine = task("--model.optimizer.lr=1e30", "--trainer.deterministic=true", f"--trainer.callbacks={saver}")
    before, mode = sorted(tmp_path.rglob("*")), torch.get_deterministic_debug_mode()
    cost = measure(mine.config)
    assert cost.setup > 0
    assert cost.epochs == 3
    assert sorted(tmp_path.rglob("*")) == before
    assert torch.get_deterministic_debug_mode() == mode


def test_a_folder_with_the_result_of_another_run_is_moved_out_of_the_way(task, tmp_path):
    mine = task()
    folder = Store(mine.root, mine.sweep).place(mine.place)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"identity": "other", "status": "finished"}))
    assert work(mine).status == "finished"
    (kept,) = (tmp_path / "runs/archive").rglob("result.json")
    assert json.loads(kept.read_text())["identity"] == "other"
