"""Workers of a Dask cluster that runs already: on other machines, under SLURM, or here for a test."""

import asyncio
import logging
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Client, Event, KilledWorker, Security, rpc

from gnn_depth.sweeps.engines import Engine, EngineError, WorkerDied

#: Seconds in which a scheduler must answer, and in which a killed worker should be back.
PATIENCE = 10
# What Dask raises when a scheduler does not answer, or a worker has no nanny to restart it.
FAILURES = (OSError, asyncio.TimeoutError, ValueError)


class DaskEngine(Engine):
    """The workers of a Dask cluster. A call runs in a thread of a worker, which need not be its main thread.

    A call that waits when the last worker has gone waits for the next one. Calls that are stopped are killed where
    a nanny watches the worker (the default of ``dask worker``); elsewhere they come to their end.

    Args:
        address: Of the scheduler: ``tcp://HOST:8786``.

    Raises:
        EngineError: Nobody answers there.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        # Dask reports lost connections to its log as they happen; whoever waits for a future is told anyway.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address = address
        self._keys: dict[Future[Any], str] = {}
        _check_address(address)
        self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        self._executor = self._client.get_executor(retries=0)
        self._check_threads()

    @property
    def workers(self) -> int:
        """Worker processes, not threads, since two runs in one process would share its random state."""
        return max(1, len(self._threads()))

    def _threads(self) -> dict[str, int]:
        try:
            return self._client.nthreads()
        except FAILURES as error:
            raise self._lost() from error

    def _lost(self) -> EngineError:
        return EngineError(f"the Dask scheduler at {self._address!r} is gone. Start it and the sweep again.")

    def _check_threads(self) -> None:
        if shared := [worker for worker, threads in self._threads().items() if threads > 1]:
            warnings.warn(
                f"{len(shared)} of the cluster's workers ({shared[0]}) have more than one thread, and only one of them "
                "is used: start `dask worker` with --nthreads 1.",
                stacklevel=4,
            )

    def _start(self, future: "Future[Any]", function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        key = f"gnn-depth-{uuid.uuid4()}"
        self._keys = {other: name for other, name in self._keys.items() if not other.done()} | {future: key}
        inner = self._executor.submit(once, key, function, *args, key=key)
        inner.add_done_callback(partial(self._settle, future))

    def _settle(self, future: "Future[Any]", inner: "Future[Any]") -> None:
        if inner.cancelled():
            future.set_exception(CancelledError() if self._stopped else self._lost())
        elif isinstance(error := inner.exception(), KilledWorker):
            future.set_exception(WorkerDied(DIED))
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(inner.result())

    def _end(self) -> None:
        if self._client.status == "closed":
            return
        if left := {key for future, key in self._keys.items() if not future.done()}:
            with suppress(*FAILURES):
                self._kill(left)
        self._client.close()
        for future in self._keys:  # whom the client could not tell any more
            if not future.done():
                future.set_exception(CancelledError())

    def _kill(self, keys: set[str]) -> None:
        busy = self._client.processing()
        self._executor.shutdown(wait=False)  # cancels: nothing begins that has not begun
        ours = [worker for worker, running in busy.items() if running and keys.issuperset(running)]
        self._client.restart_workers(ours, timeout=PATIENCE, raise_for_error=False)


def _check_address(address: str) -> None:
    """Ask whoever is there for its kind first: a Client that cannot connect takes 20 s more, and complains, to end."""
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address), PATIENCE + 1))
        reason = "" if kind == "Scheduler" else f"there is a {kind}"
    except FAILURES as error:
        reason = str(error)
    except Exception:  # of reading the answer of a web server as if it were Dask's: a MemoryError, for one
        reason = "what answers speaks another protocol"
    if reason:
        raise EngineError(
            f"no Dask scheduler answers at {address!r}: {reason}. `dask scheduler` starts one and prints its address, "
            "such as tcp://192.168.0.1:8786."
        )


async def _kind(address: str) -> str:
    async with rpc(address, timeout=PATIENCE, connection_args=Security().get_connection_args("client")) as there:
        return (await there.identity())["type"]


DIED = "the worker process died: killed, crashed or out of memory; its own log says more"


def once(key: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call the function in a worker, unless a worker died of this very call.

    Dask runs the call of a dead worker again by itself, by default three times, and tells nobody. Here each death is
    told, and the driver decides. An event on the scheduler remembers that the call has begun.

    Args:
        key: Name of the call, its own.
        function: What to call.
        args: Its arguments.

    Raises:
        WorkerDied: This call has begun before.
    """
    begun = Event(key)
    if begun.is_set():
        begun.clear()
        raise WorkerDied(DIED)
    begun.set()
    try:
        return function(*args)
    finally:
        begun.clear()
