"""A pool of workers that runs every call in a fresh process, with the imports already done."""

import contextlib
import faulthandler
import gc
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from multiprocessing import connection, forkserver, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

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
EXIT_SECONDS = 10.0  # for a process to exit by itself once its call has returned


class PoolError(ValueError):
    """The workers cannot be reached."""


class WorkerDied(Exception):
    """The process of a call has died: killed, crashed or out of memory."""


class Pool(contextlib.AbstractContextManager["Pool"]):
    """Runs calls in fresh processes; a context manager that ends those still running.

    A future holds the call's result or raises what the call raised. It raises `WorkerDied` if the
    process died (the call is not repeated), `PoolError` if the pool itself is lost, and
    `CancelledError` if the call was stopped.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._futures: set[Future[Any]] = set()

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of calls that run at once, at least 1; it may change in a cluster."""

    def submit(self, function: Callable[..., T], *args: object) -> "Future[T]":
        """Start a call of a function that the worker can import.

        Its arguments and its result are pickled.
        """
        assert not self._stopped, "the pool has been stopped"
        future = self._submit(function, args)
        self._futures = {future, *(other for other in self._futures if not other.done())}
        return future

    def stop(self, grace: float) -> None:
        """Wait some seconds for running calls, then kill those that still run."""
        self._stopped = True
        wait(self._futures, timeout=grace)
        self._end()

    def __exit__(self, *error: object) -> None:
        self.stop(0)

    @abstractmethod
    def _submit(self, function: Callable[..., T], args: tuple[object, ...]) -> "Future[T]":
        """Start a call in a worker."""

    @abstractmethod
    def _end(self) -> None:
        """Kill running calls and free all resources; safe to call more than once."""


class LocalPool(Pool):
    """Processes of this machine, forked from a server that imports `preload` in the background.

    By default there is a worker for each visible GPU, or for each physical core without GPUs. The
    cores are shared equally, and so are the GPUs. Ctrl-C reaches the driver alone, which decides
    what becomes of its calls. If the driver is killed, running calls come to their end and nothing
    is left behind.

    A process has one server, which ends with it: the first pool chooses what is imported, and the
    number of threads of libraries that read it when they are imported.
    """

    def __init__(
        self,
        workers: int | None = None,
        preload: Sequence[str] = (),
        gpus: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        gpus = visible_gpus() if gpus is None else gpus
        number = len(gpus) or cores()
        if workers is not None:
            number = workers
        limits = threads(max(1, cores() // number))
        self._number = number
        # One environment for each call that may run.
        self._environments: SimpleQueue[dict[str, str]] = SimpleQueue()
        for index in range(number):
            environment = dict(limits)
            if gpus:
                environment["CUDA_VISIBLE_DEVICES"] = gpus[index % len(gpus)]
            self._environments.put(environment)
        self._processes: set[FreshProcess[Any]] = set()
        self._starting = threading.Lock()
        _start_server(preload, limits)
        # Each thread waits for one process. Interrupts are left to the main thread.
        self._threads = ThreadPoolExecutor(
            number, "pool", signal.pthread_sigmask, (signal.SIG_BLOCK, NUMBERS)
        )

    @property
    def workers(self) -> int:
        return self._number

    def _submit(self, function: Callable[..., T], args: tuple[object, ...]) -> "Future[T]":
        return self._threads.submit(self._call, function, args)

    def _call(self, function: Callable[..., T], args: tuple[object, ...]) -> T:
        environment = self._environments.get()
        try:
            with self._starting:
                if self._stopped:
                    raise CancelledError
                mine = FreshProcess(function, args, environment)
                self._processes.add(mine)
            try:
                return mine.result()
            finally:
                self._processes.discard(mine)
        except (WorkerDied, EOFError) as error:
            if self._stopped:
                raise CancelledError from error
            if isinstance(error, EOFError):
                raise WorkerDied(
                    "the worker process could not be started: killed or out of memory"
                ) from error
            raise
        finally:
            self._environments.put(environment)

    def _end(self) -> None:
        # A call that waits for the server to finish its imports holds the lock until then.
        with self._starting:
            for mine in list(self._processes):
                mine.kill()
        self._threads.shutdown()


class FreshProcess(Generic[T]):
    """A process that makes one call and exits; an EOFError if the server of processes has died."""

    # multiprocessing polls all its children whenever one is started, which two threads must not do
    # at once.
    _table = threading.Lock()

    def __init__(
        self,
        function: Callable[..., T],
        args: tuple[object, ...],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        self._answer, answer = context.Pipe(duplex=False)
        call = pickle.dumps((function, args))
        self._process = context.Process(
            target=_answer_call, args=(answer, dict(environment or {}), call)
        )
        with answer, self._table:
            self._process.start()

    def kill(self) -> None:
        """Kill the process, if it still runs."""
        with contextlib.suppress(ValueError):  # it has ended, and has been closed
            self._process.kill()

    def result(self) -> T:
        """Wait for the call, and return what it returned or raise what it raised."""
        connection.wait([self._answer, self._process.sentinel])
        answer = None
        with self._answer, contextlib.suppress(EOFError, OSError):
            if self._answer.poll():
                answer = self._answer.recv()
        if not connection.wait([self._process.sentinel], EXIT_SECONDS):
            self.kill()
        with self._table:
            self._process.join()
            code = self._process.exitcode
            self._process.close()
        if answer is None:
            cause = f"exit code {code}"
            if code and -code in set(signal.Signals):
                cause = signal.Signals(-code).name
            raise WorkerDied(f"the worker process died ({cause}): killed, crashed or out of memory")
        value, error = answer
        if error is not None:
            raise error
        return value


def _answer_call(answer: Connection, environment: Mapping[str, str], call: bytes) -> None:
    """Make a call and send (result, error); runs in the fresh process."""
    # Ctrl-C in a terminal reaches all processes of it. It and the signals that end a process have
    # been blocked since before the server began.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
    faulthandler.enable()
    os.environ.update(environment)
    gc.freeze()  # imported objects are not garbage, and scanning them would copy shared pages
    result: tuple[Any, BaseException | None]
    try:
        function, args = pickle.loads(call)
        result = (function(*args), None)
    except Exception as error:
        if sys.version_info >= (3, 11):
            error.add_note(traceback.format_exc())
        result = (None, error)
    try:
        message = pickle.dumps(result)
        pickle.loads(message)
    except Exception as error:  # of a class that cannot be pickled
        cause = result[1] or error
        message = pickle.dumps((None, RuntimeError(f"{type(cause).__name__}: {cause}")))
    with contextlib.suppress(OSError):  # the driver is gone
        answer.send_bytes(message)


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
    of_all = os.environ.get("OMP_NUM_THREADS", "")
    limits = {}
    for name in THREADS:
        asked = os.environ.get(name) or of_all
        is_smaller = asked.isdigit() and 0 < int(asked) < share
        limits[name] = asked if is_smaller else str(share)
    return limits


def cores() -> int:
    """Number of physical cores that this process may use; affinity and container limits count."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    physical = set()
    for cpu in os.sched_getaffinity(0):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        physical.add(path.read_text() if path.exists() else str(cpu))
    number = len(physical)
    with contextlib.suppress(OSError, ValueError):  # no control groups, or no limit
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        number = min(number, math.ceil(quota / period))
    return number


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, as CUDA_VISIBLE_DEVICES takes them.

    CUDA is not initialised.
    """
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named:
        return [name.strip() for name in named.split(",")][:count]
    return [str(gpu) for gpu in range(count)]
