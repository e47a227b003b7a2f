"""The pool of this machine, with real processes that are really killed."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest
import torch

from gnn_depth.sweeps import pool
from gnn_depth.sweeps.pool import THREADS, LocalPool, cores, visible_gpus
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


def test_calls_run_at_once_each_in_a_fresh_process(two, tmp_path):
    seen = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        calls = [two.submit(jobs.meet, folder, 2) for _ in range(2)]
        seen += [call.result(60)[0] for call in calls]
    assert len({os.getpid(), *seen}) == 5
    assert eventually(lambda: not any(map(alive, seen)))


def test_a_finished_call_leaves_no_thread_that_closes_its_pipes_while_python_exits(two, tmp_path):
    for _ in range(5):
        two.submit(jobs.is_imported, "torch").result(60)
        waiting = [type(thread).__name__ for thread in threading.enumerate()]
        assert "_ExecutorManagerThread" not in waiting


# In a process of its own: the first pool of a process chooses what its server imports.
FRESH = """
import json, os
from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps import jobs

before = dict(os.environ)
with LocalPool(1, ["torch", "no.such.module"], gpus=[]) as one:
    imported = [one.submit(jobs.is_imported, name).result(60) for name in ("torch", "wave")]
    threads = one.submit(jobs.threads_used).result(60)
print(json.dumps([imported, threads, before == dict(os.environ)]))
"""


def test_calls_find_their_imports_done_and_all_cores_their_own():
    kept = {name: value for name, value in os.environ.items() if name not in THREADS}
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, cwd=ROOT, env=kept, capture_output=True, text=True, check=True)
    imported, (known, used), unchanged = json.loads(done.stdout)
    assert imported == [True, False]
    assert known == cores()
    assert used >= known  # OpenMP works in a forked process
    assert unchanged  # the driver's environment


def test_the_server_of_processes_does_not_ask_for_what_starts_cuda():
    """PyTorch for GPUs starts CUDA to show its configuration, and a forked process could not."""
    code = (
        "import torch\n"
        "def refused(): raise SystemExit('asked for the configuration')\n"
        "torch.__config__.show = refused\n"
        f"import {pool.FIRST}\n"
        "import gnn_depth.cli.grid_runs\n"
        "assert torch.__config__.show is refused\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("named", "count", "gpus"),
    [
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


def test_a_killed_or_failing_process_loses_its_own_call_and_no_other(two, tmp_path):
    healthy = two.submit(jobs.mark_and_sleep, tmp_path, 2)
    pid = the_mark_in(tmp_path)
    for number in (signal.SIGKILL, signal.SIGSEGV):
        with pytest.raises(BrokenProcessPool):
            two.submit(jobs.kill_oneself, number).result(60)
    with pytest.raises(LookupError, match="nothing there"):
        two.submit(jobs.fail, "nothing there").result(60)
    assert healthy.result(60) == pid


def test_the_server_of_the_processes_is_replaced_when_it_has_died(two):
    parent = two.submit(jobs.parent).result(60)
    end_server()
    assert two.submit(jobs.parent).result(60) not in (parent, os.getpid())


def test_stopping_lets_a_call_save_and_kills_the_one_that_goes_on(two, tmp_path):
    saves = two.submit(jobs.save_on_signal, tmp_path, 0.2)
    stays = two.submit(jobs.save_on_signal, tmp_path, 600)
    assert eventually(lambda: len(list(tmp_path.iterdir())) == 2)
    two.stop(grace=3)
    assert saves.result(0) == "saved"
    with pytest.raises(BrokenProcessPool):
        stays.result(0)
    assert eventually(lambda: not any(alive(int(mark.name)) for mark in tmp_path.iterdir()))


DRIVER = """
import sys
from concurrent.futures import wait
from pathlib import Path
from gnn_depth.sweeps.pool import LocalPool
from tests.sweeps import jobs

began, ended = Path(sys.argv[1]), Path(sys.argv[2])
with LocalPool(2, gpus=[]) as pool:
    calls = [
        pool.submit(jobs.mark_and_sleep, began, 0.5),
        pool.submit(jobs.mark_both_ends, began, 1, ended),
    ]
    try:
        wait(calls)
    except KeyboardInterrupt:
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
        assert eventually(lambda: len(list(folders[0].iterdir())) == 2)
        yield process, folders[1]
        process.kill()


def test_calls_of_a_killed_driver_come_to_their_end_and_leave_nothing(driver):
    process, ended = driver
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    the_mark_in(ended)
    assert eventually(lambda: not any(alive(child.pid) for child in children))


def test_an_interrupt_from_the_terminal_reaches_the_driver_alone(driver):
    process, _ = driver
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_whole_group_lets_a_call_save(tmp_path, number):
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
