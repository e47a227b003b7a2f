"""The engine of this machine, with real processes that are really killed."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import CancelledError, wait
from functools import partial
from pathlib import Path

import loky
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnn_depth.sweeps import engines
from gnn_depth.sweeps.engines import EngineError, WorkerDied
from gnn_depth.sweeps.local import THREADS, visible_gpus, worker_environment
from tests.sweeps import jobs
from tests.sweeps.waiting import alive, eventually

CORES = loky.cpu_count(only_physical_cores=True)
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch):
    for name in (*THREADS, "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def two():
    with engines.local(2, gpus=[]) as engine:
        yield engine


def the_mark_in(folder: Path) -> int:
    assert eventually(lambda: any(folder.iterdir()))
    return int(next(folder.iterdir()).name)


def meeting(engine: engines.Engine, folder: Path, name: str = "") -> list[tuple[int, str | None]]:
    folder.mkdir(exist_ok=True)
    calls = [engine.submit(jobs.meet, folder, engine.workers, name) for _ in range(engine.workers)]
    return [call.result(30) for call in calls]


def test_calls_run_at_once_each_in_a_process_of_its_own_and_the_processes_stay(two, tmp_path):
    first = {pid for pid, _ in meeting(two, tmp_path / "first")}
    second = {pid for pid, _ in meeting(two, tmp_path / "second")}
    assert len(first) == 2
    assert first == second
    assert os.getpid() not in first


def test_workers_warm_up_at_once_and_before_anything_is_submitted(tmp_path):
    with engines.local(2, partial(jobs.meet, tmp_path, 2), gpus=[]):
        assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)


def test_what_the_initializer_imports_is_there_when_the_first_call_begins():
    with engines.local(1, jobs.import_wave, gpus=[]) as engine:
        assert engine.submit(jobs.is_imported, "wave").result(30)


def test_the_error_of_an_initializer_comes_out_of_every_call_as_it_is():
    with engines.local(1, jobs.refuse, gpus=[]) as engine:
        for _ in range(2):
            with pytest.raises(LookupError, match="no such plugin"):
                engine.submit(jobs.pid).result(30)


def test_what_a_call_raises_comes_out_and_the_worker_stays(two):
    with pytest.raises(LookupError, match="nothing there"):
        two.submit(jobs.fail, "nothing there").result(30)
    assert two.submit(jobs.pid).result(30)


def test_a_lone_worker_has_all_cores_and_torch_knows():
    with engines.local(1, gpus=[]) as engine:
        assert engine.submit(jobs.torch_threads).result(30) == CORES


def test_without_gpus_there_is_a_worker_for_each_physical_core():
    with engines.local(gpus=[]) as engine:
        assert engine.workers == CORES


@given(workers=st.integers(1, 200), cores=st.integers(1, 200), gpus=st.integers(0, 9))
def test_workers_share_cores_and_gpus_fairly(workers, cores, gpus):
    names = [f"GPU-{gpu}" for gpu in range(gpus)]
    environments = [worker_environment(index, workers, cores, names) for index in range(workers)]
    threads = [int(environment["OMP_NUM_THREADS"]) for environment in environments]
    assert min(threads) >= 1
    assert sum(threads) <= max(workers, cores)
    taken = Counter(environment.get("CUDA_VISIBLE_DEVICES") for environment in environments)
    assert max(taken.values()) - min(taken.get(name, 0) for name in names or [None]) <= 1
    assert set(taken) <= set(names or [None])


@pytest.mark.parametrize(("asked", "threads"), [("2", "2"), ("16", "4"), ("4,2", "4"), ("0", "4")])
def test_fewer_threads_than_the_share_are_the_users_to_ask_for(monkeypatch, asked, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    assert worker_environment(0, workers=2, cores=8, gpus=[])["OMP_NUM_THREADS"] == threads


def test_every_gpu_has_its_worker(tmp_path):
    with engines.local(gpus=["2", "GPU-7"]) as engine:
        assert engine.workers == 2
        seen = {gpu for _, gpu in meeting(engine, tmp_path, "CUDA_VISIBLE_DEVICES")}
    assert seen == {"2", "GPU-7"}


@pytest.mark.parametrize(
    ("named", "count", "gpus"),
    [(None, 0, []), (None, 2, ["0", "1"]), ("3, 1", 2, ["3", "1"]), ("GPU-a,GPU-b,-1,2", 2, ["GPU-a", "GPU-b"])],
)
def test_of_the_gpus_only_the_visible_ones_count(monkeypatch, named, count, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible_gpus() == gpus


@pytest.mark.parametrize("workers", [0, -2])
def test_fewer_than_one_worker_are_refused(workers):
    with pytest.raises(EngineError, match=f"{workers} workers"):
        engines.local(workers, gpus=[])


def test_a_killed_worker_takes_its_own_call_with_it_and_no_other(two, tmp_path):
    healthy = two.submit(jobs.mark_and_sleep, tmp_path, 1.5)
    pid = the_mark_in(tmp_path)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        two.submit(jobs.kill_oneself).result(30)
    assert not healthy.done()
    assert healthy.result(30) == pid
    assert len(meeting(two, tmp_path / "again")) == 2


def test_a_worker_that_dies_idle_is_replaced(two, tmp_path):
    victim, _ = meeting(two, tmp_path)[0]
    os.kill(victim, signal.SIGKILL)
    assert eventually(lambda: not alive(victim))
    time.sleep(0.2)  # until loky has seen it too
    assert victim not in {pid for pid, _ in meeting(two, tmp_path / "again")}


def test_a_worker_that_grows_is_kept(two):
    pid = two.submit(jobs.pid).result(30)
    time.sleep(1.1)  # loky looks at most once a second
    assert two.submit(jobs.hold, 400_000_000).result(30) == pid
    time.sleep(0.2)
    assert two.submit(jobs.pid).result(30) == pid


def test_stopping_waits_for_a_call_that_ends_in_time_and_kills_the_other(two, tmp_path):
    short, long = two.submit(jobs.pid), two.submit(jobs.mark_and_sleep, tmp_path, 60)
    pid = the_mark_in(tmp_path)
    before = time.monotonic()
    two.stop(grace=0.5)
    assert 0.5 <= time.monotonic() - before < 5
    assert short.result(0)
    with pytest.raises(CancelledError):
        long.result(0)
    assert not alive(pid)
    with pytest.raises(AssertionError):
        two.submit(jobs.pid)


def test_stopping_does_not_wait_longer_than_the_calls_take(two):
    call = two.submit(jobs.pid)
    before = time.monotonic()
    two.stop(grace=30)
    assert time.monotonic() - before < 10
    assert call.result(0)


def test_whoever_leaves_the_engine_leaves_no_process_behind(tmp_path):
    with engines.local(2, gpus=[]) as engine:
        calls = [engine.submit(jobs.mark_and_sleep, tmp_path, 60) for _ in range(2)]
        assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    assert not any(alive(int(mark.name)) for mark in tmp_path.iterdir())
    assert len(wait(calls, timeout=0).done) == 2


DRIVER = """
import sys
from concurrent.futures import wait
from pathlib import Path
from gnn_depth.sweeps import engines
from tests.sweeps import jobs

began, ended = Path(sys.argv[1]), Path(sys.argv[2])
with engines.local(2, gpus=[]) as engine:
    calls = []
    try:
        print("up", flush=True)
        calls.append(engine.submit(jobs.mark_and_sleep, began, 0.5))
        calls.append(engine.submit(jobs.mark_both_ends, began, 1.5, ended))
        wait(calls)
    except KeyboardInterrupt:
        calls = calls or [engine.submit(jobs.pid)]
        print("interrupted, calls done:", *{call.result() > 0 for call in calls}, flush=True)
"""


@pytest.fixture
def driver(tmp_path):
    folders = [tmp_path / "began", tmp_path / "ended"]
    for folder in folders:
        folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *folders],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        yield process, *folders
        process.kill()


def test_workers_of_a_killed_driver_finish_their_calls_and_go(driver):
    process, began, ended = driver
    assert eventually(lambda: len(list(began.iterdir())) == 2)
    workers = [child.pid for child in psutil.Process(process.pid).children() if "popen_loky" in str(child.cmdline())]
    assert len(workers) == 2
    process.kill()
    assert the_mark_in(ended) in workers  # the call came to its end
    assert eventually(lambda: not any(map(alive, workers)))


@pytest.mark.parametrize("moment", ["while workers start", "while calls run"])
def test_an_interrupt_from_the_terminal_reaches_the_driver_alone(driver, moment):
    process, began, _ = driver
    assert process.stdout.readline() == "up\n"
    if moment == "while calls run":
        assert eventually(lambda: len(list(began.iterdir())) == 2)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert out == "interrupted, calls done: True\n"
    assert not err
