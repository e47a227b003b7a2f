"""Estimate the time that runs take on this machine from a few measured epochs."""

import contextlib
import copy
import io
import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any

import lightning as L

from gnn_depth.cli.grid_runs import cli_of
from gnn_depth.cli.process import quiet
from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool
from gnn_depth.sweeps.progress import duration
from gnn_depth.training import Diverged

WARM_UP, MEASURED = 2, 5  # epochs
MOST = 15.0  # seconds, after which fewer epochs, or the steps of a part of one, must do


@dataclass(frozen=True)
class Cost:
    """Seconds until the first epoch of a run, seconds per epoch, and the number of epochs unless it stops early."""

    setup: float
    epoch: float
    epochs: int


class FewEpochs(L.Callback):
    """Time the first epochs of a training, or the first steps of a long epoch, and end it."""

    def __init__(self) -> None:
        self.ends: list[float] = []  # when the training began, and when each whole epoch ended
        self.batches: list[float] = []  # when each batch of the first epoch ended

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.ends.append(time.perf_counter())

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        now = time.perf_counter()
        if len(self.ends) == 1:
            self.batches.append(now)
        trainer.should_stop = now - self.ends[0] > MOST

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            self.ends.append(time.perf_counter())
        trainer.should_stop |= len(self.ends) > WARM_UP + MEASURED

    def epoch(self, batches: int) -> float:
        """Seconds per epoch, given its number of batches."""
        steps = [after - before for before, after in itertools.pairwise(self.ends)]
        if steps:
            return statistics.median(steps[min(WARM_UP, len(steps) - 1) :])
        times = [*self.ends[: 2 - len(self.batches)], *self.batches]  # the first batch only where it is the only one
        return batches * (times[-1] - times[0]) / (len(times) - 1) if self.batches else 0.0


def measure(config: dict[str, Any]) -> Cost:
    """Train a resolved config for a few epochs, uncompiled and leaving no files; called in a process of its own."""
    started = time.perf_counter()
    config, timer = copy.deepcopy(config), FewEpochs()
    config["model"]["compile"], config["trainer"]["logger"] = "off", False
    config["trainer"]["enable_progress_bar"] = False
    with quiet(), tempfile.TemporaryDirectory() as folder:
        config["trainer"]["default_root_dir"] = folder  # for callbacks that write
        cli = cli_of(config)
        cli.trainer.callbacks.append(timer)  # type: ignore[attr-defined]
        # One that diverges takes less than what follows from the epochs until then.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Diverged):
            cli.trainer.fit(cli.model, datamodule=cli.datamodule)
        epochs = cli.trainer.max_epochs
        epoch = timer.epoch(cli.trainer.num_training_batches)  # type: ignore[arg-type]
    return Cost(timer.ends[0] - started, epoch, epochs or 0)


def estimate(plan: Plan, pool: Pool, most: int | None = None) -> str:
    """Estimate the time of the remaining runs, from finished runs of the same group if there are any, in words.

    At most ``most`` groups are measured, spread over the grid; the mean of them stands for the rest.
    """
    records = plan.store.records()
    left: dict[str, list[PlannedRun]] = defaultdict(list)
    done: dict[str, list[float]] = defaultdict(list)
    for run in plan.runs:
        record = records.get(run.place.identity)
        if record and record.is_result:
            done[run.place.group].append(record.seconds)
        else:
            left[run.place.group].append(run)
    runs = sum(map(len, left.values()))
    if not runs:
        return "nothing is left to run"

    finished = [r.result for run in plan.runs if (r := records.get(run.place.identity)) and r.status == "finished"]
    planned = [(result["epochs"], result.get("hparams", {}).get("trainer.max_epochs", 0)) for result in finished]
    shares = [epochs / most_epochs for epochs, most_epochs in planned if most_epochs > 0]
    share = statistics.mean(shares) if shares else 1.0  # of its epochs, after which a run stops early

    costs = {group: statistics.mean(done[group]) for group in left if group in done}
    unknown = [group for group in left if group not in costs]
    chosen = unknown[:: -(-len(unknown) // most)] if most and unknown else unknown
    for group, cost in _measure_all({group: left[group][0] for group in chosen}, pool).items():
        costs[group] = cost.setup + cost.epoch * cost.epochs * share
    typical = statistics.mean(costs.values())
    seconds = sum(len(rest) * costs.get(group, typical) for group, rest in left.items())
    said = f"{runs} to run, about {duration(seconds / min(pool.workers, runs))} with {pool.workers} at a time"
    if not shares:
        return f"{said} if none stops before its last epoch"
    return f"{said} if they stop after {100 * share:.0f}% of their epochs, as the finished ones did"


def _measure_all(runs: dict[str, PlannedRun], pool: Pool) -> dict[str, Cost]:
    """Cost of each run, measured with as many at once as the sweep runs at once."""
    waiting = list(runs.items())
    running: dict[Future[Cost], str] = {}
    costs: dict[str, Cost] = {}
    while waiting or running:
        while waiting and len(running) < pool.workers:
            group, run = waiting.pop()
            running[pool.submit(measure, run.config)] = group
        ready = wait(running, return_when=FIRST_COMPLETED).done
        costs |= {running.pop(future): future.result() for future in ready}
    return costs
