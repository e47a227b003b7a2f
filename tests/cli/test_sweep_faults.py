"""Sweeps in processes of their own, some of which are killed: nothing is lost and nothing is run twice."""

import json
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
import yaml

from tests.cli.test_sweep import BASE

SEEDS = 4
# Every training that comes to its end leaves a line.
PLUGIN = """
from pathlib import Path

import lightning as L


class Ended(L.Callback):
    def on_fit_end(self, trainer, module):
        recorder = next(callback for callback in trainer.callbacks if hasattr(callback, "result"))
        with (Path(__file__).parent / "ended").open("a") as file:
            file.write(f"{module.hparams.num_layers} {recorder.result['seed']}\\n")
"""


@pytest.fixture
def sweep(tmp_path):
    """``sweep()``: a sweep of eight runs of about two seconds in the folder of the test, as a process."""
    base = BASE | {"plugins": ["plug_ended.py"]}
    base["trainer"] = BASE["trainer"] | {"max_epochs": 400, "callbacks": [{"class_path": "plug_ended.Ended"}]}
    (tmp_path / "plug_ended.py").write_text(PLUGIN)
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    grid = {"base": "base.yaml", "axes": {"model.num_layers": [2, 3]}, "seeds": SEEDS}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    processes = []

    def start(*words, root="runs"):
        words = words if "--engine=dask" in words else ("--workers=2", *words)
        command = [sys.executable, "-m", "gnn_depth", "sweep", "grid.yaml", f"--root={root}", *words]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def statuses(folder):
    results = [json.loads(path.read_text()) for path in folder.glob("grid/*/seed_*/result.json")]
    return Counter(result["status"] for result in results)


def wait_for(condition, process, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def in_the_middle(folder):
    """Whether two runs at least have ended and two are under way: just begun, and far from the end that is counted."""
    return lambda: (found := statuses(folder))["finished"] >= 2 and found["running"] == 2


def finish(process, code=0, seconds=300):
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == code, err
    return out, err


def metrics(folder):
    found = {}
    for path in folder.glob("grid/*/seed_*/result.json"):
        result = json.loads(path.read_text())
        found[path.parent.parent.name, result["seed"]] = (result["status"], result["metrics"])
    return found


def ended(folder):
    return Counter((folder / "ended").read_text().splitlines())


ALL = Counter(f"{layers} {seed}" for layers in (2, 3) for seed in range(SEEDS))


def test_after_kill_of_a_worker_and_of_the_sweep_the_table_is_the_same_and_every_run_has_ended_once(sweep, tmp_path):
    finish(sweep(root="reference"))
    reference = metrics(tmp_path / "reference")
    assert len(reference) == len(ALL)
    assert ended(tmp_path) == ALL
    (tmp_path / "ended").unlink()

    first = sweep()
    wait_for(in_the_middle(tmp_path / "runs"), first)
    (server,) = (p for p in psutil.Process(first.pid).children() if "forkserver" in " ".join(p.cmdline()))
    server.children()[0].kill()
    archived = tmp_path / "runs" / "archive" / "grid"
    wait_for(lambda: list(archived.glob("*/seed_*/result.json")), first)
    (died,) = (json.loads(path.read_text()) for path in archived.glob("*/seed_*/result.json"))
    assert (died["status"], died["reason"]) == ("failed", "its process died.")
    first.kill()
    _, err = first.communicate()
    assert "will be started again: the worker process died of SIGKILL" in err

    out, _ = finish(sweep())
    assert "done: 8 finished" in out
    assert metrics(tmp_path / "runs") == reference
    assert ended(tmp_path) == ALL


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_sweep_keeps_what_is_finished_marks_the_rest_and_goes_on_later(sweep, tmp_path, number, code):
    process = sweep()
    wait_for(in_the_middle(tmp_path / "runs"), process)
    process.send_signal(number)
    out, err = finish(process, code)
    assert "Traceback" not in err
    assert "interrupted; the same command goes on" in out
    before = statuses(tmp_path / "runs")
    assert set(before) == {"finished", "interrupted"}
    out, _ = finish(sweep())
    assert "done: 8 finished" in out
    assert ended(tmp_path) == ALL, "an interrupted run has not ended, and a finished one is not run again"


def test_two_sweeps_of_one_folder_share_the_work(sweep, tmp_path):
    both = [sweep(), sweep()]
    for process in both:
        finish(process)
    assert statuses(tmp_path / "runs") == {"finished": 8}
    assert ended(tmp_path) == ALL
    assert not (tmp_path / "runs" / "archive").exists()


def test_what_is_finished_is_skipped_and_force_archives_it(sweep, tmp_path):
    finish(sweep("--subset", "num_layers=2", "--seeds=2"))
    finish(sweep("--subset", "num_layers=2", "--seeds=2"))
    assert ended(tmp_path) == {"2 0": 1, "2 1": 1}
    before = metrics(tmp_path / "runs")
    finish(sweep("--subset", "num_layers=2", "--seeds=2", "--force"))
    assert ended(tmp_path) == {"2 0": 2, "2 1": 2}
    assert metrics(tmp_path / "runs") == before
    assert len(list((tmp_path / "runs" / "archive" / "grid").glob("*/seed_*/result.json"))) == 2


def test_diverged_runs_are_results_and_failed_ones_are_named_and_tried_again_next_time(sweep, tmp_path):
    words = ["--subset", "num_layers=2", "--seeds=1"]
    out, _ = finish(sweep(*words, "--model.optimizer.lr=1e30"))
    assert "done: 1 diverged" in out
    out, err = finish(
        sweep(*words, "--trainer.gradient_clip_val=-1", "--model.optimizer.lr=1e-3", "--trainer.precision=16-true"),
        code=1,
    )
    assert "precision 16-true" in err
    assert "done: 1 failed" in out
    (failed,) = (p for p in (tmp_path / "runs").glob("grid/*/*/result.json") if "16-true" in p.read_text())
    assert json.loads(failed.read_text())["attempt"] == 1
    finish(
        sweep(*words, "--trainer.gradient_clip_val=-1", "--model.optimizer.lr=1e-3", "--trainer.precision=16-true"),
        code=1,
    )
    assert json.loads(failed.read_text())["attempt"] == 2
