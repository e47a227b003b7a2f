"""Estimate the time that runs take on this machine from a few measured epochs."""

import contextlib
import copy
import io
import math
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import lightning as L

from gnn_depth.cli.grid_runs import cli_of
from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool
from gnn_depth.sweeps.progress import duration
from gnn_depth.training import Diverged
from gnn_depth.training.loggers import quiet

WARM_UP, MEASURED = 2, 5  # epochs
MAX_SECONDS = 15.0  # stop measuring after this many


@dataclass(frozen=True)
class Cost:
    """Seconds until the first epoch of a run and per epoch, and the number of its epochs.

    The number holds unless the run stops early.
    """

    setup: float
    epoch: float
    epochs: float  # a part of one if max_steps ends it

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return self.setup + self.epoch * self.epochs


class FewSteps(L.Callback):
    """Time the steps of the first epochs of a training, validation included, and end it."""

    def __init__(self) -> None:
        self.times: list[float] = []  # when the training began, and when each step ended

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.times.append(time.perf_counter())

    def on_train_batch_end(self, trainer: L.Trainer, *args: Any) -> None:
        self.times.append(time.perf_counter())
        is_enough = len(self.times) > (WARM_UP + MEASURED) * trainer.num_training_batches
        trainer.should_stop = is_enough or self.times[-1] - self.times[0] > MAX_SECONDS

    def epoch(self, batches: int) -> float:
        """Seconds per epoch, given its number of batches."""
        steps = len(self.times) - 1
        if steps < 1:
            return 0.0
        warm_up = min(WARM_UP * batches, steps // 2)  # of a single step nothing is left out
        return batches * (self.times[-1] - self.times[warm_up]) / (steps - warm_up)


def measure_cost(config: dict[str, Any]) -> Cost:
    """Train a resolved config for a few epochs, uncompiled and leaving no files.

    It is called in a process of its own.
    """
    started = time.perf_counter()
    config = copy.deepcopy(config)
    timer = FewSteps()
    # Compiling would take longer than the epochs that are measured.
    config["model"]["compile"] = "off"
    config["trainer"] |= {
        "logger": False,
        "enable_progress_bar": False,
        # With these Lightning would train on when the timer asks it to stop.
        "min_epochs": None,
        "min_steps": None,
    }
    with quiet(), tempfile.TemporaryDirectory() as folder:
        config["trainer"]["default_root_dir"] = folder  # for callbacks that write
        cli = cli_of(config)
        cli.trainer.callbacks.append(timer)  # type: ignore[attr-defined]
        # A diverging run is short: the epochs before it diverges overestimate its time.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Diverged):
            cli.trainer.fit(cli.model, datamodule=cli.datamodule)
        batches: Any = cli.trainer.num_training_batches
        steps = cli.trainer.estimated_stepping_batches * cli.trainer.accumulate_grad_batches
    # A run may diverge before its first epoch.
    began = timer.times[0] if timer.times else time.perf_counter()
    epochs = 0.0
    if 0 < steps < math.inf:
        epochs = steps / batches
    return Cost(began - started, timer.epoch(batches), epochs)


def estimate_time(plan: Plan, pool: Pool) -> str:
    """The time of the remaining runs as a sentence.

    It is that of finished runs of the same group if there are any.
    """
    records = plan.store.records()
    left: dict[str, list[PlannedRun]] = defaultdict(list)
    done: dict[str, list[float]] = defaultdict(list)
    for run in plan.runs:
        record = records.get(run.key.identity)
        if record and record.is_result:
            done[run.key.group].append(record.seconds)
        else:
            left[run.key.group].append(run)
    if not left:
        return "nothing is left to run"
    measured = {}
    for group, runs in left.items():
        if group not in done:
            measured[group] = pool.submit(measure_cost, runs[0].config)
    count = 0
    seconds = 0.0
    for group, runs in left.items():
        one = (
            measured[group].result().seconds if group in measured else statistics.mean(done[group])
        )
        count += len(runs)
        seconds += len(runs) * one
    at_once = pool.workers
    time_left = duration(seconds / min(at_once, count))
    said = f"{count} to run, about {time_left} with {at_once} at a time"
    return f"{said} if none stops before its last epoch" if measured else said
