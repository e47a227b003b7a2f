"""A sweep on a Dask cluster, and one of which a worker is killed."""

import os
import re
import signal

import psutil
import pytest

from gnn_depth.cli.sweep import PRELOAD
from tests.cli.conftest import PoolHere
from tests.cli.test_sweep_faults import ALL, SEEDS, ended, finish, folder, statuses, sweep, wait_for  # noqa: F401

pytest.importorskip("distributed", reason="the cluster extra is not installed")

from tests.sweeps.test_cluster import cluster


def at_work(runs):
    """Process ids of the workers that hold the lock of a run."""
    holders = []
    for process in psutil.process_iter():
        try:
            files = [file.path for file in process.open_files()]
        except psutil.Error:
            continue
        holders += [
            process.pid
            for file in files
            if re.search(rf"{re.escape(str(runs))}/grid/\.claims/\w+\.lock", file)
        ]
    return holders


@pytest.mark.slow  # tests/sweeps/test_cluster.py has the engine itself
def test_a_sweep_runs_on_the_workers_of_a_cluster(folder, gnn_depth, tmp_path):  # noqa: F811
    with cluster(tmp_path, 1, "--nthreads", "1", "--no-nanny") as (address, _):
        words = [
            "sweep",
            "grid.yaml",
            "--subset",
            "num_layers=2",
            "--seeds=2",
            "--trainer.max_epochs=2",
        ]
        answer = gnn_depth(*words, "--engine=dask", f"--address={address}")
    assert answer.code == 0, answer.err
    assert "done: 2 finished" in answer.out
    assert ended(tmp_path) == {"2 0": 1, "2 1": 1}


def test_the_address_of_a_cluster_is_where_a_sweep_runs(folder, gnn_depth, monkeypatch):  # noqa: F811
    def pool(address, preload):
        assert (address, preload) == ("tcp://there:8786", PRELOAD)
        return PoolHere(2)

    monkeypatch.setattr("gnn_depth.sweeps.cluster.DaskPool", pool)
    words = ["--subset", "num_layers=2", "--engine=dask", "--address=tcp://there:8786"]
    answer = gnn_depth("sweep", "grid.yaml", *words)
    assert answer.code == 0, answer.err
    assert ended(folder) == {"2 0": 1, "2 1": 1}


@pytest.mark.slow
def test_a_killed_run_is_started_again_and_a_lost_scheduler_ends_the_sweep_with_one_line(
    sweep,  # noqa: F811
    tmp_path,
):
    with cluster(tmp_path, 1, "--nthreads", "2") as (address, scheduler):
        words = ["--engine=dask", f"--address={address}"]
        process = sweep(*words)
        # Two: the next runs have just begun then, and are far from the end that is counted.
        wait_for(
            lambda: (
                statuses(tmp_path / "runs")["finished"] >= 2
                and len(at_work(tmp_path / "runs")) == 2
            ),
            process,
        )
        os.kill(at_work(tmp_path / "runs")[0], signal.SIGKILL)
        out, err = finish(process)
        assert "started again" in err
        assert f"done: {2 * SEEDS} finished" in out
        assert ended(tmp_path) == ALL

        process = sweep(*words, root="other")
        wait_for(lambda: statuses(tmp_path / "other")["running"], process)
        scheduler.kill()
        _, err = finish(process, code=1)
    assert f"stopped: the Dask scheduler at '{address}'" in err
    assert "Traceback" not in err
