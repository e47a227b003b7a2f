"""One run of a sweep: in this process where a test reaches into it, otherwise in one of its own as
in a sweep."""

import json
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest
import yaml

from gnn_depth.cli import main
from gnn_depth.cli.config import read_arguments
from gnn_depth.cli.grid_runs import plan_of, train_job
from gnn_depth.cli.sweep import load_grid
from gnn_depth.runs import read_result
from gnn_depth.sweeps.store import Store
from gnn_depth.sweeps.worker import OUTPUT, RUNNING_ELSEWHERE, work
from tests.cli.test_sweep import BASE
from tests.processes import fresh_processes, start_server


@pytest.fixture
def job(tmp_path):
    """``job("--model.dropout=0.5")``: what a worker is asked to do for a small run."""
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    (tmp_path / "grid.yaml").write_text("base: base.yaml\n")
    root = tmp_path / "runs"

    def make(*overrides):
        arguments = read_arguments(list(overrides))
        file = str(tmp_path / "grid.yaml")
        (run,) = plan_of(load_grid(file), arguments, str(root)).runs
        return Store(root, "grid"), run, train_job

    return make


@pytest.fixture(scope="module")
def pool():
    start_server()
    with fresh_processes() as pool:
        yield pool


def result_of(outcome):
    return read_result(outcome.folder)


def reason(outcome):
    return outcome.result["reason"]


def test_a_run_has_the_numbers_of_a_fit_and_is_not_run_again(job, pool, tmp_path):
    assert pool.submit(work, *job("--trainer.precision=64-true")).result(120).status == "finished"
    mine = job("--model.dropout=0.5", "--model.norm=pair")
    outcome = pool.submit(work, *mine).result(120)
    assert "epoch 3/3" in (outcome.folder / OUTPUT).read_text()
    config = str(outcome.folder / "config.yaml")
    assert main(["fit", "--config", config, "--run.root", str(tmp_path / "fit")]) == 0
    (fresh,) = (json.loads(path.read_text()) for path in tmp_path.glob("fit/*/*/result.json"))
    assert fresh["metrics"] == result_of(outcome)["metrics"]
    assert fresh["identity"] == result_of(outcome)["identity"]
    assert work(*mine) == outcome


def test_a_crash_of_a_library_leaves_its_trace_with_the_output_of_the_run(job, pool, bad):
    store, run, train = job(*bad("Crashes"))
    with pytest.raises(BrokenProcessPool):
        pool.submit(work, store, run, train).result(120)
    said = (store.folder_of(run) / OUTPUT).read_text()
    assert "from compiled code" in said
    assert "on_train_epoch_end" in said


def test_a_run_that_another_process_works_on_is_left_to_it(job):
    store, run, train = job()
    with store.claim(run.identity):
        assert work(store, run, train).status == RUNNING_ELSEWHERE


def test_a_run_whose_process_died_is_started_again_a_bounded_number_of_times(job, tmp_path):
    store, run, train = job()
    store.archive(store.begin(run).folder)
    store.begin(run, 2)
    outcome = work(store, run, train)
    assert (outcome.status, result_of(outcome)["attempt"]) == ("finished", 3)
    assert len(list((tmp_path / "runs/archive").rglob("result.json"))) == 2

    _, other, _ = job("--model.dropout=0.5")
    folder = store.begin(other, 3).folder
    outcome = work(store, other, train)
    assert (outcome.status, outcome.folder) == ("failed", folder)
    assert "its process died 3 times" in reason(outcome)


BAD = """
import os
import signal

import lightning as L


class Leaves(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        raise SystemExit(3)


class Raises(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        raise KeyError("untidy")


class Crashes(L.Callback):
    def on_train_epoch_end(self, trainer, module):
        os.write(2, b"from compiled code")
        os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture
def bad(tmp_path):
    """``bad("Leaves")``: options of a run with a callback that misbehaves."""
    (tmp_path / "my_bad.py").write_text(BAD)

    def words(name):
        callbacks = json.dumps([{"class_path": f"my_bad.{name}"}])
        return f"--plugins={tmp_path / 'my_bad.py'}", f"--trainer.callbacks={callbacks}"

    yield words
    sys.modules.pop("my_bad", None)


def test_a_run_that_raises_or_calls_exit_fails_with_the_reason(job, bad):
    outcome = work(*job(*bad("Raises")))
    assert outcome.status == "failed"
    assert "my_bad.py" in reason(outcome)
    said = (outcome.folder / OUTPUT).read_text()
    assert 'in on_train_epoch_end\n    raise KeyError("untidy")' in said
    outcome = work(*job(*bad("Leaves")))
    assert outcome.status == "failed"
    assert "ended the program: SystemExit(3)" in reason(outcome)
