"""Worker processes of this machine: warm, of equal shares of its cores, one to a GPU where there are GPUs."""

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from typing import Any

import loky
from loky.process_executor import BrokenProcessPool, ProcessPoolExecutor, ShutdownExecutorError, TerminatedWorkerError

from gnn_depth.sweeps import local_worker
from gnn_depth.sweeps.engines import Engine, EngineError, WorkerDied

# OMP_NUM_THREADS is the one that torch reads; it and the BLAS libraries read theirs when they are loaded.
# Inductor would start one compiler per core of the machine in every worker.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")


class LocalEngine(Engine):
    """Worker processes of this machine. The driver keeps at most ``workers`` calls running at once.

    Args:
        workers: Their number; by default one per GPU, or where there is none one per physical core.
        initializer: Called once in every worker before its first call.
        gpus: Names of the GPUs, shared out in turn.

    Raises:
        EngineError: Fewer than one worker.
    """

    def __init__(
        self, workers: int | None = None, initializer: Callable[[], object] | None = None, gpus: Sequence[str] = ()
    ) -> None:
        super().__init__()
        cores = loky.cpu_count(only_physical_cores=True)  # of this process: affinity and container limits count
        number = workers if workers is not None else len(gpus) or cores
        if number < 1:
            raise EngineError(f"{number} workers can run nothing; at least 1 is needed (here are {cores} cores).")
        self._workers = [
            _Worker(worker_environment(index, number, cores, gpus), initializer) for index in range(number)
        ]

    @property
    def workers(self) -> int:
        return len(self._workers)

    def _start(self, future: "Future[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        idle = next((worker for worker in self._workers if worker.idle), None)
        assert idle is not None, f"all {self.workers} workers are busy"
        idle.start(future, function, args)

    def _end(self) -> None:
        for worker in self._workers:
            worker.end()
        # loky does not wait for the threads that fed its queues. If the driver ends while one is still freeing its
        # semaphores, warnings of leaked objects appear (in 1 of 10 short runs measured).
        for thread in threading.enumerate():
            if thread.name == "QueueFeederThread":
                thread.join(timeout=1)


class _Worker:
    """One worker process, replaced at the next call when it has died.

    It has an executor of its own: when a worker of a loky executor is killed, loky kills all other workers of that
    executor with their calls (measured: two healthy calls lost with one of three workers), and joblib's pool is one
    such executor. With an executor each, only the call of the dead worker is lost.
    """

    def __init__(self, environment: dict[str, str], initializer: Callable[[], object] | None) -> None:
        self._environment = environment
        self._initializer = initializer
        self._future: Future[Any] | None = None
        self._warm_up()

    @property
    def idle(self) -> bool:
        return self._future is None or self._future.done()

    def start(self, future: "Future[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._future = future
        try:
            inner = self._executor.submit(local_worker.call, function, *args)
        except BrokenProcessPool:  # of the last call, or since
            self.end()
            self._warm_up()
            inner = self._executor.submit(local_worker.call, function, *args)
        inner.add_done_callback(partial(_settle, future))

    def end(self) -> None:
        """Kill the process, also an idle one: it has nothing to lose, and its orderly end would take longer."""
        self._executor.shutdown(kill_workers=True)

    def _warm_up(self) -> None:
        prepared = (os.getpid(), self._initializer)
        self._executor = ProcessPoolExecutor(
            1, None, env=self._environment, initializer=local_worker.prepare, initargs=prepared
        )
        with interrupts_blocked():
            self._executor.submit(local_worker.warm)


def _settle(future: "Future[Any]", inner: "Future[Any]") -> None:
    error = inner.exception()
    if error is None:
        future.set_result(inner.result())
    elif isinstance(error, TerminatedWorkerError):
        future.set_exception(
            WorkerDied(f"the worker process died{_signal(str(error))}: killed, crashed or out of memory")
        )
    elif isinstance(error, ShutdownExecutorError):
        future.set_exception(CancelledError())
    else:
        future.set_exception(error)


def _signal(message: str) -> str:
    """The exit code in loky's message, as `` of SIGKILL(-9)``."""
    code = re.search(r"\{(\w+\(-?\d+\))", message)
    return f" of {code[1]}" if code else ""


def worker_environment(index: int, workers: int, cores: int, gpus: Sequence[str]) -> dict[str, str]:
    """What a worker's environment has that the driver's has not: its share of the cores and its GPU.

    Args:
        index: The worker's number, from 0.
        workers: How many share the machine.
        cores: How many cores they share.
        gpus: Names of the GPUs they share.
    """
    share = max(1, cores // workers)
    environment = {name: _threads(name, share) for name in THREADS}
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
    # loky restarts a worker that has grown by 300 MB: the next run's data set is larger, that is all.
    return environment | {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e18"}


def _threads(name: str, share: int) -> str:
    """The share, or what the user asked for if that is less."""
    asked = os.environ.get(name, "")
    return asked if asked.isdigit() and 0 < int(asked) < share else str(share)


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them; CUDA is not initialised."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [name.strip() for name in named.split(",")][:count] if named else [str(gpu) for gpu in range(count)]


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes that hear no Ctrl-C from their first instruction on: a child inherits what its parent blocks.

    The driver itself hears it a moment later.
    """
    resource_tracker.ensure_running()  # which would unblock the signal if it began within
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
