"""Workers of a running Dask cluster: on other machines, under SLURM, or on this machine."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeVar

from distributed import Client, KilledWorker, Security, rpc

from gnn_depth.sweeps.pool import FIRST, FreshProcess, Pool, PoolError, WorkerDied

T = TypeVar("T")
#: Seconds in which a scheduler must answer, and in which a killed worker should be back.
PATIENCE = 10
# Raised by Dask when a scheduler does not answer, or a worker has no nanny to restart it.
FAILURES = (OSError, asyncio.TimeoutError, ValueError)


class DaskPool(Pool):
    """The workers of a Dask cluster, each of which makes its calls in fresh processes.

    A call submitted while there are no workers waits for one. If a whole worker dies, Dask itself
    repeats its calls elsewhere, so a function must cope with being called again (a run of a sweep
    is found as begun). Running calls can be stopped only where a nanny watches the worker, which is
    the default of ``dask worker``.
    """

    def __init__(self, address: str, preload: Sequence[str] = ()) -> None:
        super().__init__()
        # They log lost connections, which the futures report.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address = address
        self._preload = tuple(preload)
        _check_address(address)
        self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        self._executor = self._client.get_executor(retries=0, pure=False)

    @property
    def workers(self) -> int:
        """Number of threads of all workers: each can run a call."""
        try:
            return max(1, sum(self._client.nthreads().values()))
        except FAILURES as error:
            raise self._lost() from error

    def _lost(self) -> PoolError:
        return PoolError(
            f"the Dask scheduler at {self._address!r} is gone. Start it and the sweep again."
        )

    def _submit(self, function: Callable[..., T], args: tuple[object, ...]) -> "Future[T]":
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        inner = self._executor.submit(call, self._preload, function, args)
        inner.add_done_callback(partial(self._settle, future))
        return future

    def _settle(self, future: "Future[Any]", inner: "Future[Any]") -> None:
        if inner.cancelled():
            future.set_exception(CancelledError() if self._stopped else self._lost())
            return
        error = inner.exception()
        if error is None:
            future.set_result(inner.result())
        elif isinstance(error, KilledWorker):
            reason = "it killed several workers of the cluster; see their logs"
            future.set_exception(WorkerDied(reason))
        else:
            future.set_exception(error)

    def _end(self) -> None:
        if self._client.status == "closed":
            return
        running = [future for future in self._futures if not future.done()]
        if running:
            with contextlib.suppress(*FAILURES):
                self._kill()
        self._client.close()
        for future in running:  # those that the closed client could not settle
            if not future.done():
                future.set_exception(CancelledError())

    def _kill(self) -> None:
        """Restart the workers that run nothing but calls of this pool."""
        ours = set(self._client.futures)
        busy = self._client.processing()
        self._executor.shutdown(wait=False)  # cancels calls that have not begun
        mine = [worker for worker, running in busy.items() if running and ours.issuperset(running)]
        self._client.restart_workers(mine, timeout=PATIENCE, raise_for_error=False)


_STARTING = threading.Lock()


def call(preload: Sequence[str], function: Callable[..., T], args: tuple[object, ...]) -> T:
    """Make a call in a fresh process of this worker, which imports the modules once for all."""
    with _STARTING:
        multiprocessing.set_forkserver_preload([FIRST, *preload])
        # Dask's workers are daemons, which multiprocessing does not let start processes.
        config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
        daemon = config.pop("daemon", None)
        try:
            process: FreshProcess[T] = FreshProcess(_call_and_follow, (function, args))
        finally:
            config["daemon"] = daemon
    return process.result()


def _call_and_follow(function: Callable[..., T], args: tuple[object, ...]) -> T:
    """Make a call in this process, and exit when the worker that asked for it dies."""
    threading.Thread(target=_follow, daemon=True).start()
    return function(*args)


def _follow() -> None:
    worker = multiprocessing.parent_process()
    assert worker is not None
    worker.join()
    os._exit(1)


def _check_address(address: str) -> None:
    """Check that a Dask scheduler answers: a Client that cannot connect takes long and warns."""
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address), PATIENCE + 1))
        reason = "" if kind == "Scheduler" else f"there is a {kind}"
    except FAILURES as error:
        reason = str(error)
    except Exception:
        # A web server's answer read as if it were Dask's may raise anything, such as a MemoryError.
        reason = "the answer uses another protocol"
    if reason:
        raise PoolError(
            f"no Dask scheduler answers at {address!r}: {reason}. `dask scheduler` starts one and "
            "prints its address, such as tcp://192.168.0.1:8786."
        )


async def _kind(address: str) -> str:
    arguments = Security().get_connection_args("client")
    async with rpc(address, timeout=PATIENCE, connection_args=arguments) as there:
        identity = await there.identity()
    return identity["type"]
