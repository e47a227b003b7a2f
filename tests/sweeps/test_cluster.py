"""The engine of a Dask cluster: a scheduler and workers in processes of their own, which are really killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gnn_depth.sweeps import engines
from gnn_depth.sweeps.engines import EngineError, WorkerDied
from tests.sweeps import jobs
from tests.sweeps.waiting import alive, eventually

pytest.importorskip("distributed", reason="the cluster extra is not installed")

ROOT = Path(__file__).parents[2]


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen]:
    """A command of Dask, in a process group that is killed at the end, nannies and their workers alike."""
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
        scheduler = stack.enter_context(running("scheduler", "--port", "0", "--scheduler-file", str(known)))
        assert eventually(lambda: known.exists() and known.read_text().endswith("}"))
        address = json.loads(known.read_text())["address"]
        for _ in range(workers):
            stack.enter_context(running("worker", address, "--local-directory", str(folder), *options))
        yield address, scheduler


def marks(folder: Path) -> list[int]:
    return [int(mark.name) for mark in folder.iterdir()]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster"), 2, "--nthreads", "1") as (address, _):
        yield address


@pytest.fixture
def engine(address):
    with engines.dask(address) as engine:
        assert eventually(lambda: engine.workers == 2)
        yield engine


def test_calls_run_at_once_in_the_workers_of_the_cluster(engine, tmp_path):
    calls = [engine.submit(jobs.meet, tmp_path, 2) for _ in range(2)]
    assert len({call.result(30)[0] for call in calls} - {os.getpid()}) == 2


def test_what_a_call_raises_comes_out_and_the_worker_stays(engine):
    with pytest.raises(LookupError, match="nothing there"):
        engine.submit(jobs.fail, "nothing there").result(30)
    assert engine.submit(jobs.pid).result(30)


def test_a_killed_worker_loses_one_call_once_and_nothing_is_run_again_unasked(engine, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    lost = engine.submit(jobs.mark_and_sleep, first, 60)
    kept = engine.submit(jobs.mark_and_sleep, second, 3)
    assert eventually(lambda: marks(first) and marks(second))
    os.kill(marks(first)[0], signal.SIGKILL)
    with pytest.raises(WorkerDied, match="died"):
        lost.result(30)
    assert [kept.result(30)] == marks(second)
    assert len(marks(first)) == 1
    assert eventually(lambda: engine.workers == 2)  # the nanny's doing
    again = engine.submit(jobs.mark, first)
    assert again.result(30) in marks(first)


def test_stopping_kills_what_runs(engine, tmp_path):
    call = engine.submit(jobs.mark_and_sleep, tmp_path, 60)
    assert eventually(lambda: marks(tmp_path))
    engine.stop(grace=0.1)
    with pytest.raises(CancelledError):
        call.result(0)
    assert eventually(lambda: not alive(marks(tmp_path)[0]))


def test_a_lost_scheduler_is_told_instead_of_waited_for(tmp_path):
    with cluster(tmp_path, 0) as (address, scheduler), engines.dask(address) as engine:
        assert engine.workers == 1  # a call may wait for the first worker
        call = engine.submit(jobs.pid)
        scheduler.kill()
        with pytest.raises(EngineError, match=f"scheduler at '{address}' is gone"):
            call.result(30)


def test_workers_of_several_threads_are_counted_once_with_a_warning(tmp_path):
    with cluster(tmp_path, 1, "--nthreads", "3", "--no-nanny") as (address, _):
        with engines.dask(address) as engine:
            assert eventually(lambda: engine.submit(jobs.pid).result(30))
        with pytest.warns(UserWarning, match="--nthreads 1"), engines.dask(address) as engine:
            assert engine.workers == 1


@pytest.fixture
def patience(monkeypatch):
    from gnn_depth.sweeps import cluster

    monkeypatch.setattr(cluster, "PATIENCE", 1)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("wrong", ["tcp://127.0.0.1:1", "nowhere", "ftp://127.0.0.1:8786"])
def test_an_address_where_nobody_answers_is_told_in_a_sentence_soon(wrong):
    before = time.monotonic()
    with pytest.raises(EngineError, match=f"no Dask scheduler answers at '{wrong}'"):
        engines.dask(wrong)
    assert time.monotonic() - before < 5


@pytest.mark.usefixtures("patience")
def test_a_web_server_is_no_scheduler():
    def answer() -> None:
        there, _ = server.accept()
        there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        there.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(EngineError, match="no Dask scheduler answers"):
            engines.dask(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()


def test_without_the_extra_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "gnn_depth.sweeps.cluster", raising=False)
    with pytest.raises(EngineError, match=r"pip install 'gnn-depth\[cluster\]'"):
        engines.dask("tcp://127.0.0.1:8786")
