"""Estimate the time that runs take on this machine from a few measured epochs."""

import contextlib
import copy
import io
import itertools
import statistics
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import lightning as L

from gnn_depth.cli.grid_runs import cli_of
from gnn_depth.cli.process import quiet
from gnn_depth.sweeps.plan import Plan, PlannedRun
from gnn_depth.sweeps.pool import Pool
from gnn_depth.sweeps.progress import duration
from gnn_depth.training import Diverged
from gnn_depth.training.compiling import steps_of

WARM_UP, MEASURED = 2, 5  # epochs
MAX_SECONDS = 15.0  # stop measuring after this many


@dataclass(frozen=True)
class Cost:
    """Seconds until the first epoch of a run, seconds per epoch, and the number of epochs unless it stops early."""

    setup: float
    epoch: float
    epochs: float  # a part of one if max_steps ends it


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
        trainer.should_stop = now - self.ends[0] > MAX_SECONDS

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_last_batch:
            self.ends.append(time.perf_counter())
        trainer.should_stop |= len(self.ends) > WARM_UP + MEASURED

    def epoch(self, batches: int) -> float:
        """Seconds per epoch, given its number of batches."""
        seconds = [after - before for before, after in itertools.pairwise(self.ends)]
        if seconds:
            return statistics.median(seconds[min(WARM_UP, len(seconds) - 1) :])
        if not self.batches:
            return 0.0
        # The first batch, which warms up, counts only where it is the only one.
        times = self.batches if len(self.batches) > 1 else [self.ends[0], *self.batches]
        return batches * (times[-1] - times[0]) / (len(times) - 1)


def measure(config: dict[str, Any]) -> Cost:
    """Train a resolved config for a few epochs, uncompiled and leaving no files; called in a process of its own."""
    started = time.perf_counter()
    config, timer = copy.deepcopy(config), FewEpochs()
    config["model"]["compile"] = "off"
    config["trainer"] |= {"logger": False, "enable_progress_bar": False, "min_epochs": None, "min_steps": None}
    with quiet(), tempfile.TemporaryDirectory() as folder:
        config["trainer"]["default_root_dir"] = folder  # for callbacks that write
        cli = cli_of(config)
        cli.trainer.callbacks.append(timer)  # type: ignore[attr-defined]
        # A diverging run is short: the epochs before it diverges overestimate its time.
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(Diverged):
            cli.trainer.fit(cli.model, datamodule=cli.datamodule)
        batches: Any = cli.trainer.num_training_batches
        steps = steps_of(cli.trainer)
    began = timer.ends[0] if timer.ends else time.perf_counter()  # a run may diverge before its first epoch
    return Cost(began - started, timer.epoch(batches), steps / batches if steps > 0 else 0.0)


def estimate(plan: Plan, pool: Pool, max_groups: int | None = None) -> str:
    """The estimated time of the remaining runs as a sentence, from finished runs of the same group if there are any.

    At most ``max_groups`` groups are measured, spread over the grid; the mean of them stands for the rest.
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
    count = sum(map(len, left.values()))
    if not count:
        return "nothing is left to run"

    finished = [r.result for run in plan.runs if (r := records.get(run.place.identity)) and r.status == "finished"]
    planned = [(result["epochs"], result.get("hparams", {}).get("trainer.max_epochs", 0)) for result in finished]
    shares = [epochs / max_epochs for epochs, max_epochs in planned if max_epochs > 0]
    share = statistics.mean(shares) if shares else 1.0  # of max_epochs, after which finished runs stopped

    costs = {group: statistics.mean(done[group]) for group in left if group in done}
    unknown = [group for group in left if group not in costs]
    chosen = unknown[:: -(-len(unknown) // max_groups)] if max_groups and unknown else unknown
    measured = {group: pool.submit(measure, left[group][0].config) for group in chosen}
    for group, future in measured.items():
        cost: Cost = future.result()
        costs[group] = cost.setup + cost.epoch * cost.epochs * share
    typical = statistics.mean(costs.values())
    seconds = sum(len(rest) * costs.get(group, typical) for group, rest in left.items())
    said = f"{count} to run, about {duration(seconds / min(pool.workers, count))} with {pool.workers} at a time"
    if not shares:
        return f"{said} if none stops before its last epoch"
    return f"{said} if they stop after {100 * share:.0f}% of their epochs, as the finished ones did"
