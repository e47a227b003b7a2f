"""Where calls run: worker processes of this machine or of a Dask cluster, behind one small interface."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any


class EngineError(ValueError):
    """An engine that cannot be had, or is lost: nobody at the address, a package that is missing."""


class WorkerDied(Exception):
    """The process of a call is gone (killed, crashed, out of memory). Its future raises this, whatever the engine."""


class Engine(ABC):
    """Runs calls in worker processes that stay; a context manager that leaves none of its own behind.

    A future has the call's result, or raises what the call raised; `WorkerDied`, once for every death (nothing is run
    again unless it is submitted again); `EngineError` where the engine itself is lost; `CancelledError` of
    concurrent.futures where the call was stopped.

    Workers write to the standard output and error that they were started with: a call that shall not garble a live
    view redirects its own.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._futures: set[Future[Any]] = set()

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many calls run at once, at least 1; a cluster's number changes, so ask anew."""

    def submit(self, function: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Start a call in a worker; functions of modules travel by name, so a worker must be able to import them.

        Args:
            function: What to call.
            args: Its arguments; they and the result are pickled.
        """
        assert not self._stopped, "an engine that was stopped starts nothing"
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self._futures = {future, *(other for other in self._futures if not other.done())}
        try:
            self._start(future, function, args)
        except OSError as error:  # no process or memory to be had: this call fails, and others may have more luck
            future.set_exception(error)
        return future

    def stop(self, grace: float) -> None:
        """Wait for what runs, kill what still does, and start nothing any more.

        Args:
            grace: Seconds to wait.
        """
        self._stopped = True
        wait(self._futures, timeout=grace)
        self._end()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever leaves reads no more results: what still runs is stopped, not waited for.
        self.stop(0)

    @abstractmethod
    def _start(self, future: "Future[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Have the function called in a worker and its outcome told to the future."""

    @abstractmethod
    def _end(self) -> None:
        """Kill what runs, settle every future and free everything; called again, do nothing."""


def local(
    workers: int | None = None,
    initializer: Callable[[], object] | None = None,
    gpus: Sequence[str] | None = None,
) -> Engine:
    """Worker processes of this machine, which begin to warm up at once.

    Args:
        workers: Their number; by default one per GPU, or where there is none one per physical core.
        initializer: Called once in every worker before its first call: imports what the calls need. What it raises,
            the futures of that worker raise.
        gpus: Names of the GPUs as CUDA_VISIBLE_DEVICES takes them, shared out in turn; by default all that are visible.

    Raises:
        EngineError: Fewer than one worker.
    """
    from gnn_depth.sweeps.local import LocalEngine, visible_gpus

    return LocalEngine(workers, initializer, visible_gpus() if gpus is None else gpus)


def dask(address: str) -> Engine:
    """The workers of a Dask cluster that runs already; each should be a process of one thread (``--nthreads 1``).

    Args:
        address: Of its scheduler: ``tcp://HOST:8786``.

    Raises:
        EngineError: Nobody answers there, or Dask is not installed.
    """
    try:
        from gnn_depth.sweeps.cluster import DaskEngine
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed"):
            raise
        raise EngineError(
            f"the engine dask needs the package {error.name}: pip install 'gnn-depth[cluster]'."
        ) from error
    return DaskEngine(address)
