"""Workers of a running Dask cluster: on other machines, under SLURM, or on this machine."""

import asyncio
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, TypeVar

from distributed import Client, KilledWorker

from gnn_depth.sweeps.pool import FIRST, Pool, PoolError, call_in_fresh_process

T = TypeVar("T")
PATIENCE = 10  # seconds in which a scheduler must answer


class DaskPool(Pool):
    """The workers of a Dask cluster, each of which makes its calls in fresh processes.

    A call submitted while there are no workers waits for one. If a whole worker dies, Dask itself
    repeats its calls elsewhere, so a function must cope with being called again (a run of a sweep
    is found as begun).
    """

    def __init__(self, address: str, preload: Sequence[str] = ()) -> None:
        # They log lost connections, which the futures report.
        for name in ("distributed", "distributed.client", "distributed.comm"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._preload = tuple(preload)
        self._calls: list[Future[Any]] = []
        self._lost = PoolError(
            f"no Dask scheduler answers at {address!r}. `dask scheduler` starts one and prints its "
            "address, such as tcp://192.168.0.1:8786."
        )
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except Exception as error:  # a web server's answer, for example, may raise anything
            raise self._lost from error
        self._executor = self._client.get_executor(retries=0, pure=False)

    @property
    def workers(self) -> int:
        """Number of threads of all workers: each can run a call."""
        try:
            return max(1, sum(self._client.nthreads().values()))
        except (OSError, asyncio.TimeoutError, ValueError) as error:
            raise self._lost from error

    def submit(self, function: Callable[..., T], *args: object) -> "Future[T]":
        future: Future[T] = Future()
        inner = self._executor.submit(call, self._preload, function, args)
        inner.add_done_callback(partial(self._settle, future))
        self._calls = [known for known in self._calls if not known.done()] + [future]
        return future

    def _settle(self, future: "Future[Any]", inner: "Future[Any]") -> None:
        if inner.cancelled():
            future.set_exception(self._lost)
        elif isinstance(inner.exception(), KilledWorker):
            future.set_exception(BrokenProcessPool("it killed several workers; see their logs"))
        elif inner.exception() is not None:
            future.set_exception(inner.exception())
        else:
            future.set_result(inner.result())

    def stop(self, grace: float) -> None:
        """Wait some seconds for running calls; those that still run then come to their end."""
        wait(self._calls, timeout=grace)
        self._client.close()


_STARTING = threading.Lock()


def call(preload: Sequence[str], function: Callable[..., T], args: tuple[object, ...]) -> T:
    """Make a call in a fresh process of this worker, which imports the modules once for all."""
    with _STARTING:
        multiprocessing.set_forkserver_preload([FIRST, *preload])
        # Dask's workers are daemons, which multiprocessing does not let start processes.
        config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
        daemon = config.pop("daemon", None)
        try:
            future = call_in_fresh_process(_call_and_follow, (function, args), {})
        finally:
            config["daemon"] = daemon
    return future.result()


def _call_and_follow(function: Callable[..., T], args: tuple[object, ...]) -> T:
    """Make a call in this process, and exit when the worker that asked for it dies."""
    threading.Thread(target=_follow, daemon=True).start()
    return function(*args)


def _follow() -> None:
    worker = multiprocessing.parent_process()
    assert worker is not None
    worker.join()
    os._exit(1)
