"""Write each epoch's values to loggers and to the terminal, and silence what is not needed."""

import logging
import math
import shutil
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from gnn_depth.runs import event_tag

SECONDS = 2.0  # the time of the epochs that are passed to the loggers together
HALF_A_MINUTE = 30.0
UNDEFINED = "undefined"  # how a metric that is NaN is shown
# How the messages begin that are not shown.
WARNINGS = (
    # A config asks for it by null; Lightning's note says that it takes 0.
    "No seed found",
    # There is no DataLoader, the graph is in memory.
    "The .* does not have many workers",
    # Every run has its own folder.
    "Checkpoint directory .* exists and is not empty",
    # A sweep's run has its result there from the start.
    "Experiment logs directory .* exists and is not empty",
    # Lightning's calls of jsonargparse.
    r"\s*By default only one JsonargparseDeprecationWarning",
    r"\s*\S+ (parameter )?was deprecated in v4",
    # It is refused with an error by make_trainer.
    "You passed .* but AMP with fp16 is not supported on CPU",
    # The user asked for the CPU.
    "GPU available but not used",
    # A test needs no callback, and a training that goes on has those that were asked for.
    "Be aware that when using `ckpt_path`",
    # Lightning's call of PyTorch.
    r"`isinstance\(treespec, LeafSpec\)` is deprecated",
)
LOGGERS = ("lightning.fabric", "lightning.pytorch")


class EpochLog(L.Callback):
    """Keep the values of each epoch on their device, and hand them to the loggers in blocks.

    Logging a value makes the host wait for the device, and each logger write to its file. A block
    is two seconds; the last one is handed over however the training ends. Schedules and callbacks
    find every value in ``trainer.callback_metrics`` at once.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, dict[str, Tensor]]] = []  # epoch, step, values
        self._handed_over = time.monotonic()

    def put(self, trainer: L.Trainer, values: dict[str, Tensor]) -> None:
        """Add the training values of an epoch, which begin its row, or its validation values."""
        if trainer.training:
            self._rows.append((trainer.current_epoch, trainer.global_step, {}))
        elif not self._rows:  # handed over, or resumed, between the two
            self._rows.append((trainer.current_epoch, max(trainer.global_step - 1, 0), {}))
        self._rows[-1][2].update(values)
        trainer.callback_metrics.update(values)

    def forget(self, step: int) -> None:
        """Leave out the rows from a step on."""
        self._rows = [row for row in self._rows if row[1] < step]

    def hand_over(self, trainer: L.Trainer) -> None:
        """Pass all rows to the loggers."""
        try:
            while self._rows:
                epoch, step, values = self._rows[0]
                trainer.logged_metrics.update(values)
                row = {**in_numbers(values), "epoch": epoch}
                for logger in trainer.loggers:
                    logger.log_metrics(row, step)
                del self._rows[0]  # Ctrl-C in between loses none
            for logger in trainer.loggers:
                logger.save()  # Lightning's CSVLogger writes its file only then
        except Exception:
            self._rows = []  # not tried again at the end
            raise
        self._handed_over = time.monotonic()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if time.monotonic() - self._handed_over >= SECONDS:
            self.hand_over(trainer)

    def on_save_checkpoint(self, trainer: L.Trainer, *_: Any) -> None:
        self.hand_over(trainer)  # a resumed training's curves begin where these end

    # However the training ends.
    on_train_end = on_exception = on_save_checkpoint  # type: ignore[assignment]


def in_numbers(values: Mapping[str, Tensor]) -> dict[str, float]:
    """Scalars as Python numbers, with one transfer from their device."""
    if not values:
        return {}
    # A metric of a process without rows may never have left the CPU.
    device = next(iter(values.values())).device
    numbers = torch.stack([value.to(device) for value in values.values()]).tolist()
    return dict(zip(values, numbers, strict=True))


def in_digits(value: float) -> str:
    """A metric as text of four digits that count, however small it is; NaN is undefined."""
    if math.isnan(value):
        return UNDEFINED
    if 0.1 <= abs(value) < 1e5:
        return f"{value:.4f}"
    return f"{value:#.4g}"


class EventLogger(TensorBoardLogger):
    """TensorBoard logger that writes all values of a step as one record.

    One record per value is much slower. A metric that is undefined (NaN) has no point.
    """

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = []
        for name, value in metrics.items():
            if not math.isnan(value):
                values.append(Summary.Value(tag=event_tag(name), simple_value=value))
        self.experiment.file_writer.add_summary(Summary(value=values), step)

    @rank_zero_only
    def resume(self, step: int) -> None:
        """Take the place of what earlier event files of the folder have from a step on."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        start = Event(step=step, session_log=SessionLog(status=SessionLog.START))
        self.experiment.file_writer.add_event(start, step)

    def log_result(self, result: Mapping[str, Any]) -> None:
        """Write the options of a finished run, its axes in a sweep and its final metrics."""
        axes = {name: str(label) for name, label in result.get("axes", {}).items()}
        final = {}
        for name, value in result["metrics"].items():
            if name.endswith("_at_best_val") and math.isfinite(value):
                final[f"~final/{name}"] = value
        self.log_hyperparams(result["hparams"] | axes, final, step=0)


def folder_loggers(folder: Path, resumes: Path | None = None) -> list[Logger]:
    """Make the loggers of TensorBoard's event file and of ``metrics.csv`` in an empty folder, and
    copy there the event files of the run that is resumed."""
    csv = CSVLogger(folder, name="", version="")
    _ = csv.experiment  # opened while the folder is empty: it warns of any file there
    if resumes is not None and resumes != folder:
        for events in resumes.glob("events.out.tfevents.*"):
            # Files are read in the order of their names, which begin with a time: a clock may have
            # been set back since.
            shutil.copy2(events, folder / events.name.replace("tfevents.", "tfevents.0", 1))
    # With a short queue the training waits for the thread that writes.
    return [EventLogger(folder, name="", version="", default_hp_metric=False, max_queue=1000), csv]


class EpochProgress(ProgressBar):
    """Print a line after the first epoch, every tenth of them and every half minute: a full-batch
    epoch is a single step, too short for a bar of its own."""

    _enabled = True

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._printed = time.monotonic()

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        done, total = trainer.current_epoch + 1, trainer.max_epochs or -1
        completes_tenth = done * 10 // total > (done - 1) * 10 // total  # never without an end
        is_due = done == 1 or completes_tenth or time.monotonic() - self._printed >= HALF_A_MINUTE
        if not (self._enabled and is_due):
            return
        self._printed = time.monotonic()
        # A class of the user's has no task.
        best = getattr(getattr(pl_module, "task", None), "best", "acc")
        words = []
        # Not of the test set: who watches it chooses by it.
        for name in ("train/loss", "val/loss", f"val/{best}"):
            if name in trainer.callback_metrics:
                words.append(f"{name} {in_digits(trainer.callback_metrics[name].item())}")
        print(f"epoch {done}/{total}: {', '.join(words)}", file=sys.stderr)


@contextmanager
def quiet() -> Iterator[None]:
    """Drop for a while what libraries print that a user can do nothing about: Lightning's notes and
    tips, and :data:`WARNINGS`."""
    before = {logger: logger.level for logger in map(logging.getLogger, LOGGERS)}
    for logger in before:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            for start in WARNINGS:
                warnings.filterwarnings("ignore", start)
            yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)
