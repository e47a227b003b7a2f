"""Sweeps in processes of their own, some of which are killed: nothing is lost and nothing is run
twice."""

import json
import os
import re
import signal
import sys
import threading
from collections import Counter

import psutil
import pytest
import yaml

from tests.cli.conftest import PoolHere
from tests.cli.test_sweep import BASE
from tests.processes import start_server
from tests.sweeps.waiting import eventually

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
def folder(tmp_path):
    """A folder with a grid of four runs: two that end at once, and then two of about five
    seconds."""
    base = BASE | {"plugins": ["plug_ended.py"]}
    base["trainer"] = BASE["trainer"] | {"callbacks": [{"class_path": "plug_ended.Ended"}]}
    (tmp_path / "plug_ended.py").write_text(PLUGIN)
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    longer = {"when": {"model.num_layers": 3}, "set": {"trainer.max_epochs": 600}}
    grid = {
        "base": "base.yaml",
        "axes": {"model.num_layers": [2, 3]},
        "rules": [longer],
        "seeds": 2,
    }
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(grid))
    yield tmp_path
    sys.modules.pop("plug_ended", None)


def statuses(folder):
    results = [json.loads(path.read_text()) for path in folder.glob("grid/*/seed_*/result.json")]
    return Counter(result["status"] for result in results)


def in_the_middle(folder):
    """Whether two runs have ended, and the next two have just begun: they are far from the end that
    is counted."""
    return lambda: (found := statuses(folder))["finished"] >= 2 and found["running"] == 2


def ended(folder):
    return Counter((folder / "ended").read_text().splitlines())


ALL = Counter(f"{layers} {seed}" for layers in (2, 3) for seed in range(2))


def test_a_stopped_sweep_keeps_what_is_finished_and_goes_on_later(
    done, folder, gnn_depth, monkeypatch
):
    """It has started a run again whose process was killed."""
    start_server()
    stopper = threading.Thread(target=stop_in_the_middle, args=(folder / "runs",))
    stopper.start()
    answer = gnn_depth("sweep", "grid.yaml", "--workers=2")
    stopper.join()
    assert answer.code == 130
    assert "Traceback" not in answer.err
    assert "the same command continues the sweep" in answer.out
    assert "started again" in answer.err
    assert died(folder / "runs") == [("failed", "its process died.")]
    assert statuses(folder / "runs") == {"finished": 2, "interrupted": 2}
    monkeypatch.setattr("gnn_depth.cli.sweep.LocalPool", PoolHere)
    done("sweep", "grid.yaml")
    assert statuses(folder / "runs") == {"finished": 4}
    # An interrupted run has not ended, and a finished one is not run again.
    assert ended(folder) == ALL


def stop_in_the_middle(runs, seconds=240):
    """Kill a worker of this process, which is sweeping, and send it Ctrl-C."""
    assert eventually(in_the_middle(runs), seconds)
    kill_a_worker(os.getpid())
    assert eventually(lambda: died(runs) and in_the_middle(runs)(), seconds)
    os.kill(os.getpid(), signal.SIGINT)


def kill_a_worker(sweep):
    """Kill a process that does a run of a sweep, which has this process id."""
    for process in psutil.Process(sweep).children():
        if "forkserver" in " ".join(process.cmdline()):
            process.children()[0].kill()


def died(runs):
    """Status and reason of every run that is archived."""
    results = [json.loads(path.read_text()) for path in runs.glob("archive/grid/*/*/result.json")]
    return [(result["status"], result["reason"]) for result in results]


@pytest.mark.usefixtures("pool_here")
def test_finished_and_diverged_runs_are_results_and_failed_are_retried(done, folder, gnn_depth):
    ends = {
        "good": {},
        "diverges": {"model.optimizer.lr": 1e30},
        "fails": {"trainer.precision": "16-true"},
    }
    (folder / "grid.yaml").write_text(yaml.safe_dump({"base": "base.yaml", "axes": {"end": ends}}))
    words = ["sweep", "grid.yaml", "--workers=2", "--trainer.max_epochs=3"]
    for attempt in (1, 2):
        answer = gnn_depth(*words)
        assert answer.code == 1
        assert {"1 finished", "1 diverged", "1 failed"} <= set(re.findall(r"1 \w+", answer.out))
        assert "16-true" in answer.err
        (failed,) = (folder / "runs").glob("grid/end=fails/*/result.json")
        assert json.loads(failed.read_text())["attempt"] == attempt
    assert ended(folder) == {"2 0": 1}
    done(*words, "--force", "--subset", "end=good")
    assert ended(folder) == {"2 0": 2}
    assert len(list((folder / "runs/archive/grid").glob("end=good/seed_*/result.json"))) == 1
