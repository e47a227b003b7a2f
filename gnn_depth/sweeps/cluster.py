"""Workers of a running Dask cluster: on other machines, under SLURM, or on this machine."""

import logging
import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from distributed import Client

from gnn_depth.sweeps.pool import FIRST, Pool, PoolError, start_in_fresh_process

T = TypeVar("T")
PATIENCE = 10  # seconds in which a scheduler must answer


class DaskPool(Pool):
    """The workers of a Dask cluster, each of which makes its calls in fresh processes.

    A call submitted while there are no workers waits for one. If a whole worker dies, its calls
    come to their end and Dask itself repeats them elsewhere, so a function must cope with being
    called again (a run of a sweep is found as begun).
    """

    def __init__(self, address: str, preload: Sequence[str]) -> None:
        # They log lost connections, which the futures report.
        for name in ("distributed", "distributed.client", "distributed.comm"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._preload = preload
        self.lost = PoolError(
            f"no Dask scheduler answers at {address!r}. `dask scheduler` starts one and prints its "
            "address, such as tcp://192.168.0.1:8786."
        )
        try:
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except Exception as error:  # a web server's answer, for example, may raise anything
            raise self.lost from error
        self._executor = self._client.get_executor(retries=0, pure=False)

    @property
    def workers(self) -> int:
        """Number of threads of all workers: each can run a call."""
        try:
            return max(1, sum(self._client.nthreads().values()))
        except Exception as error:
            raise self.lost from error

    def submit(self, function: Callable[..., T], *args: object) -> "Future[T]":
        return self._executor.submit(call_preloaded, self._preload, function, args)

    def stop(self, grace: float) -> None:
        """Leave the cluster: running calls come to their end there."""
        self._client.close()


_STARTING = threading.Lock()


def call_preloaded(
    preload: Sequence[str], function: Callable[..., T], args: tuple[object, ...]
) -> T:
    """Make a call in a fresh process of this worker, which imports the modules once for all."""
    with _STARTING:
        multiprocessing.set_forkserver_preload([FIRST, *preload])
        # Dask's workers are daemons, which multiprocessing does not let start processes.
        multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
        result = start_in_fresh_process(function, args, {})
    return result()
