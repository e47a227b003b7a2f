"""The pool of this machine, with real processes that are really killed."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, wait
from pathlib import Path

import psutil
import pytest
import torch

from gnn_depth.sweeps import pool
from gnn_depth.sweeps.pool import THREADS, LocalPool, WorkerDied, cores, threads, visible_gpus
from tests.sweeps import jobs
from tests.sweeps.waiting import alive, end_server, eventually

ROOT = Path(__file__).parents[2]


@pytest.fixture
def two():
    with LocalPool(2, gpus=[]) as two:
        yield two


def the_mark_in(folder: Path) -> int:
    assert eventually(lambda: any(folder.iterdir()))
    return int(next(folder.iterdir()).name)


def test_calls_run_at_once_each_in_a_fresh_process_of_its_own(two, tmp_path):
    seen = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        calls = [two.submit(jobs.meet, folder, 2) for _ in range(2)]
        seen += [call.result(60)[0] for call in calls]
    assert len({os.getpid(), *seen}) == 5
    assert not any(map(alive, seen))


# In a process of its own: the first pool of a process chooses what its server imports.
FRESH = """
import json, os
from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps import jobs

before = dict(os.environ)
with LocalPool(1, ["torch", "no.such.module"], gpus=[]) as one:
    imported = [one.submit(jobs.is_imported, name).result(60) for name in ("torch", "wave")]
    threads = one.submit(jobs.threads_used).result(60)
    ignored = one.submit(jobs.interrupt_is_ignored).result(60)
print(json.dumps([imported, threads, ignored, before == dict(os.environ)]))
"""


def test_calls_find_their_imports_done_and_all_cores_their_own_and_leave_interrupts_to_the_driver():
    kept = {name: value for name, value in os.environ.items() if name not in THREADS}
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=True)
    imported, (known, used), interrupt_is_ignored, unchanged = json.loads(done.stdout)
    assert imported == [True, False]
    assert known == cores()
    assert used >= known, "OpenMP works in a forked process"
    assert interrupt_is_ignored
    assert unchanged, "the driver's environment has changed"


def test_the_server_of_processes_does_not_ask_for_what_starts_cuda():
    """PyTorch for GPUs starts CUDA to show its configuration, and a forked process could not."""
    code = (
        "import torch\n"
        "def refused(): raise SystemExit('asked for the configuration')\n"
        "torch.__config__.show = refused\n"
        f"import {pool.FIRST}\n"
        "import gnn_depth.cli.grid_runs, gnn_depth.cli.cost\n"
        "assert torch.__config__.show is refused\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_errors_come_out_with_the_trace_of_the_worker(two):
    with pytest.raises(LookupError, match="nothing there") as error:
        two.submit(jobs.fail, "nothing there").result(60)
    if sys.version_info >= (3, 11):
        assert "jobs.py" in error.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Unpicklable: nothing there"):
        two.submit(jobs.fail_unpicklably).result(60)
    with pytest.raises(RuntimeError, match="lock"):
        two.submit(jobs.return_a_lock).result(60)


def test_by_default_there_is_a_worker_for_each_gpu_or_core(tmp_path):
    with LocalPool(gpus=[]) as here:
        assert here.workers == cores()
    with LocalPool(gpus=["2", "GPU-7"]) as here:
        assert here.workers == 2
        calls = [here.submit(jobs.meet, tmp_path, 2, "CUDA_VISIBLE_DEVICES") for _ in range(2)]
        assert {call.result(60)[1] for call in calls} == {"2", "GPU-7"}


def test_a_user_may_ask_for_fewer_threads_than_the_share(monkeypatch):
    for asked, share in {"2": "2", "16": "4", "4,2": "4", "0": "4", "": "4"}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
        assert threads(4)["OMP_NUM_THREADS"] == share


def test_one_limit_of_openmp_is_that_of_every_library_unless_it_has_its_own(monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert set(threads(4).values()) == {"1"}
    monkeypatch.setenv("MKL_NUM_THREADS", "2")
    assert threads(4)["MKL_NUM_THREADS"] == "2"
    assert threads(4)["OPENBLAS_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("named", "count", "gpus"),
    [
        (None, 0, []),
        (None, 2, ["0", "1"]),
        ("3, 1", 2, ["3", "1"]),
        ("GPU-a,GPU-b,-1,2", 2, ["GPU-a", "GPU-b"]),
    ],
)
def test_only_visible_gpus_count(monkeypatch, named, count, gpus):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if named is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert visible_gpus() == gpus


def test_a_killed_or_crashed_process_loses_its_own_call_and_no_other(two, tmp_path):
    healthy = two.submit(jobs.mark_and_sleep, tmp_path, 1)
    pid = the_mark_in(tmp_path)
    for number in (signal.SIGKILL, signal.SIGSEGV):
        with pytest.raises(WorkerDied, match=number.name):
            two.submit(jobs.kill_oneself, number).result(60)
    with pytest.raises(WorkerDied, match="exit code 3"):
        two.submit(sys.exit, 3).result(60)
    assert healthy.result(60) == pid


def test_the_server_of_the_processes_is_replaced_when_it_has_died(two):
    parent = two.submit(jobs.parent).result(60)
    end_server()
    assert two.submit(jobs.parent).result(60) not in (parent, os.getpid())


def test_a_process_that_does_not_exit_by_itself_is_ended(two, monkeypatch):
    monkeypatch.setattr(pool, "EXIT_SECONDS", 0.2)
    pid = two.submit(jobs.leave_a_thread).result(60)
    assert not alive(pid)


def test_stopping_waits_for_a_call_that_ends_in_time_and_kills_the_other(two, tmp_path):
    short, long = two.submit(jobs.pid), two.submit(jobs.mark_and_sleep, tmp_path, 600)
    pid = the_mark_in(tmp_path)
    assert short.result(60)
    before = time.monotonic()
    two.stop(grace=0.5)
    assert 0.5 <= time.monotonic() - before < 60
    with pytest.raises(CancelledError):
        long.result(0)
    assert not alive(pid)
    with pytest.raises(AssertionError):
        two.submit(jobs.pid)


@pytest.mark.parametrize("begun", [False, True])
def test_leaving_the_pool_ends_all_calls_whether_they_have_begun_or_not(tmp_path, begun):
    with LocalPool(2, gpus=[]) as here:
        calls = [here.submit(jobs.mark_and_sleep, tmp_path, 600) for _ in range(2)]
        if begun:
            assert eventually(lambda: len(list(tmp_path.iterdir())) >= 2)
    assert len(wait(calls, timeout=0).done) == 2
    assert all(isinstance(call.exception(), CancelledError) for call in calls)
    assert not any(alive(int(mark.name)) for mark in tmp_path.iterdir())


DRIVER = """
import sys
from concurrent.futures import wait
from pathlib import Path
from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps import jobs

began, ended = Path(sys.argv[1]), Path(sys.argv[2])
with LocalPool(2, sys.argv[3:], gpus=[]) as pool:
    calls = []
    try:
        print("up", flush=True)
        calls.append(pool.submit(jobs.mark_and_sleep, began, 0.5))
        calls.append(pool.submit(jobs.mark_both_ends, began, 1, ended))
        wait(calls)
    except KeyboardInterrupt:
        calls = calls or [pool.submit(jobs.pid)]
        print("interrupted, calls done:", *{call.result() > 0 for call in calls}, flush=True)
"""


@pytest.fixture
def preload():
    return []


@pytest.fixture
def driver(tmp_path, preload):
    folders = [tmp_path / "began", tmp_path / "ended"]
    for folder in folders:
        folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *folders, *preload],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        yield process, *folders
        process.kill()


def test_calls_of_a_killed_driver_come_to_their_end_and_leave_nothing(driver):
    process, began, ended = driver
    assert eventually(lambda: len(list(began.iterdir())) == 2)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    the_mark_in(ended)
    assert eventually(lambda: not any(alive(child.pid) for child in children))


@pytest.mark.parametrize(
    "preload", [["pandas"], []], ids=["while the server imports", "while calls run"]
)
def test_an_interrupt_from_the_terminal_reaches_the_driver_alone(driver, preload):
    process, began, _ = driver
    assert process.stdout.readline() == "up\n"
    if not preload:
        assert eventually(lambda: len(list(began.iterdir())) == 2)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "interrupted, calls done: True\n"
    assert not err


SAVING = """
import signal
import sys
from pathlib import Path
from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps import jobs

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, jobs.raise_signalled)
with LocalPool(1, gpus=[]) as pool:
    call = pool.submit(jobs.save_on_signal, Path(sys.argv[1]))
    try:
        call.result()
    except jobs.Signalled:
        pool.stop(60)
        print(call.result())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_lets_a_call_save_before_the_pool_has_stopped(tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-c", SAVING, tmp_path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        the_mark_in(tmp_path)
        os.killpg(process.pid, number)
        out, _ = process.communicate(timeout=60)
    assert out == "saved\n"
