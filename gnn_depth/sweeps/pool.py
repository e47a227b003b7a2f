"""A pool of workers that makes every call in a fresh process, with the imports already done."""

import faulthandler
import gc
import multiprocessing
import os
import signal
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing import forkserver, resource_tracker
from typing import Any, TypeVar

from gnn_depth.signals import NUMBERS

T = TypeVar("T")
# OMP_NUM_THREADS is the one that torch reads; the BLAS libraries read theirs when they are loaded.
# Inductor would otherwise start one compiler process per core in every worker.
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TORCHINDUCTOR_COMPILE_THREADS",
)
#: What every server imports before anything else.
FIRST = "gnn_depth.sweeps.before_fork"
KILL_SECONDS = 10.0  # until the end of a killed process has been noticed


class PoolError(ValueError):
    """The workers cannot be reached."""


class Pool(AbstractContextManager["Pool"]):
    """Makes calls in fresh processes; a context manager that ends those still running.

    A future holds the call's result or raises what the call raised. It raises BrokenProcessPool if
    the process died; the call is not repeated. If the pool itself is lost, it is cancelled.
    """

    lost = PoolError("the workers cannot be reached any more.")

    def __exit__(self, *error: object) -> None:
        self.stop(0)

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of calls that run at once, at least 1; it may change in a cluster."""

    @abstractmethod
    def submit(self, function: Callable[..., T], *args: object) -> "Future[T]":
        """Start a call of a function that the worker can import.

        Its arguments and its result are pickled.
        """

    @abstractmethod
    def stop(self, grace: float) -> None:
        """Ask running calls to stop, and kill those that still run after some seconds."""


class LocalPool(Pool):
    """Processes of this machine, forked from a server that imports `preload` first.

    By default there is a worker for each visible GPU, or for each core without GPUs. The
    cores are shared equally, and so are the GPUs. Ctrl-C reaches the driver alone. If the driver is
    killed, running calls come to their end and nothing is left behind.

    A process has one server, which ends with it: the first pool chooses what is imported. Stopping
    a pool kills all processes that were forked from the server.
    """

    def __init__(
        self,
        workers: int | None = None,
        preload: Sequence[str] = (),
        gpus: Sequence[str] | None = None,
    ) -> None:
        self._gpus = visible_gpus() if gpus is None else gpus
        number = workers or len(self._gpus) or cores()
        self._preload = preload
        self._limits = threads(max(1, cores() // number))
        self._threads = ThreadPoolExecutor(number)  # they wait for the processes
        self._calls: list[Future[Any]] = [Future() for _ in range(number)]  # each worker's last
        for call in self._calls:
            call.set_result(None)
        _start_server(preload, self._limits)

    @property
    def workers(self) -> int:
        return len(self._calls)

    def submit(self, function: Callable[..., T], *args: object) -> "Future[T]":
        free = [call.done() for call in self._calls].index(True)
        environment = dict(self._limits)
        if self._gpus:
            environment["CUDA_VISIBLE_DEVICES"] = self._gpus[free % len(self._gpus)]
        _start_server(self._preload, self._limits)  # another one if it has died
        try:
            future = self._threads.submit(start_in_fresh_process(function, args, environment))
        except (OSError, EOFError) as error:  # no memory for it, for example
            future = Future()
            future.set_exception(BrokenProcessPool(f"no process could be started: {error}"))
        self._calls[free] = future
        return future

    def stop(self, grace: float) -> None:
        for end in ("terminate", "kill"):
            for child in multiprocessing.active_children():
                getattr(child, end)()
            wait(self._calls, timeout=grace)
            grace = KILL_SECONDS


def start_in_fresh_process(
    function: Callable[..., T], args: Sequence[object], environment: Mapping[str, str]
) -> Callable[[], T]:
    """Start a call in a process of its own; a pool of one, since a process that dies breaks its
    pool.

    Returns:
        A function that waits for the end of the process, and returns or raises what the call did.
    """
    context = multiprocessing.get_context("forkserver")
    executor = ProcessPoolExecutor(1, context, _begin, (environment,))
    call = executor.submit(_call, function, args)

    def result() -> T:
        # Python cannot exit while a pool shuts down: it wakes each pool's thread, by a pipe that
        # the thread may be closing.
        with executor:
            return call.result()

    return result


def _begin(environment: Mapping[str, str]) -> None:
    """Prepare a fresh process for its call."""
    # Ctrl-C in a terminal reaches all processes of it. It and the signals that end a process have
    # been blocked since before the server began.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    faulthandler.enable()
    os.environ.update(environment)
    gc.freeze()  # imported objects are not garbage, and scanning them would copy shared pages


def _call(function: Callable[..., T], args: Sequence[object]) -> T:
    result = function(*args)
    driver = multiprocessing.parent_process()
    if driver is None or not driver.is_alive():  # the executor would wait for its next call
        os._exit(0)
    return result


def _start_server(preload: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start the server, whose child processes inherit this environment and ignore Ctrl-C.

    The server itself outlives all signals that are sent to a whole group of processes: with it, the
    pool would lose sight of children that still save their state.
    """
    resource_tracker.ensure_running()  # started while signals are blocked, it would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
    mine = {name: os.environ[name] for name in environment if name in os.environ}
    os.environ.update(environment)
    try:
        multiprocessing.set_forkserver_preload([FIRST, *preload])
        forkserver.ensure_running()
    finally:
        for name in environment:
            del os.environ[name]
        os.environ.update(mine)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def threads(share: int) -> dict[str, str]:
    """Environment variables that limit a process to this number of threads.

    A smaller limit of the user stays. OMP_NUM_THREADS limits all of them, as it does without a
    sweep: torch takes the number of threads from MKL, whose default is that of OpenMP.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and 0 < int(asked) < share:
        share = int(asked)
    return dict.fromkeys(THREADS, str(share))


def cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them.

    CUDA is not initialised.
    """
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return [name.strip() for name in named.split(",")][:count]
