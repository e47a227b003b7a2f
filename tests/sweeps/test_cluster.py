"""The engine of a Dask cluster: a scheduler and workers in processes of their own, which are really
killed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gnn_depth.sweeps.pool import PoolError
from tests.sweeps import jobs
from tests.sweeps.waiting import eventually

pytest.importorskip("distributed", reason="the cluster extra is not installed")

from gnn_depth.sweeps.cluster import DaskPool

ROOT = Path(__file__).parents[2]


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen]:
    """A command of Dask, in a process group that is killed at the end, nannies and their workers
    alike."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dask", *words, "--no-dashboard", "--host", "127.0.0.1"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def cluster(folder: Path, workers: int, *options: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler's address and process, with workers that are on their way."""
    known = folder / "scheduler.json"
    with ExitStack() as stack:
        scheduler = stack.enter_context(
            running("scheduler", "--port", "0", "--scheduler-file", str(known))
        )
        assert eventually(lambda: known.exists() and known.read_text().endswith("}"))
        address = json.loads(known.read_text())["address"]
        for _ in range(workers):
            stack.enter_context(
                running("worker", address, "--local-directory", str(folder), *options)
            )
        yield address, scheduler


def marks(folder: Path) -> list[int]:
    return [int(mark.name) for mark in folder.iterdir()]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster"), 2, "--nthreads", "1") as (address, _):
        yield address


@pytest.fixture
def engine(address):
    with DaskPool(address, ()) as engine:
        assert eventually(lambda: engine.workers == 2)
        yield engine


def test_calls_run_at_once_in_fresh_processes_of_the_workers(engine, tmp_path):
    calls = [engine.submit(jobs.meet, tmp_path, 2) for _ in range(2)]
    seen = {call.result(60)[0] for call in calls}
    assert len({*seen, os.getpid(), engine.submit(jobs.pid).result(60)}) == 4


def test_errors_come_out_and_a_killed_process_loses_its_own_call_and_no_other(engine, tmp_path):
    with pytest.raises(LookupError, match="nothing there"):
        engine.submit(jobs.fail, "nothing there").result(60)
    kept = engine.submit(jobs.mark_and_sleep, tmp_path, 1)
    assert eventually(lambda: marks(tmp_path))
    with pytest.raises(BrokenProcessPool):
        engine.submit(jobs.kill_oneself, signal.SIGKILL).result(60)
    assert [kept.result(60)] == marks(tmp_path)


def test_a_lost_scheduler_is_reported_instead_of_waited_for(tmp_path):
    with cluster(tmp_path, 0) as (address, scheduler), DaskPool(address, ()) as engine:
        assert engine.workers == 1  # a call may wait for the first worker
        call = engine.submit(jobs.pid)
        scheduler.kill()
        with pytest.raises(CancelledError):
            call.result(60)
        assert address in str(engine.lost)


def test_an_address_where_no_scheduler_answers_is_refused_soon(monkeypatch):
    monkeypatch.setattr("gnn_depth.sweeps.cluster.PATIENCE", 1)
    for wrong in ("tcp://127.0.0.1:1", "ftp://127.0.0.1:8786"):
        with pytest.raises(PoolError, match=wrong):
            DaskPool(wrong, ())
