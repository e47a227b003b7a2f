"""The callback that records a run: its folder, its best epoch, its checkpoints and its result."""

import datetime as dt
import logging
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import LambdaCallback
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only, rank_zero_warn
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor, nn

from gnn_depth.config_file import to_yaml
from gnn_depth.ranges import Count, Positive, in_range
from gnn_depth.runs import (
    FORMAT,
    LOCK,
    Origin,
    digest,
    environment,
    from_here,
    lock,
    new_run_folder,
    write_atomically,
    write_result,
)
from gnn_depth.signals import Stopped
from gnn_depth.training.divergence import Diverged
from gnn_depth.training.identity import hparams
from gnn_depth.training.lightning_internals import (
    is_between_epochs,
    is_within_step,
    measured_weights,
    resume_epoch,
    save_weights,
    save_whole_epoch,
)
from gnn_depth.training.loggers import EventLogger, folder_loggers, in_numbers
from gnn_depth.training.resume import ENDS

log = logging.getLogger(__name__)


@dataclass
class BestEpoch:
    """The epoch with the best validation metric: its metrics, and a copy of its weights in memory.

    The field reports test accuracy at the epoch of the best validation accuracy. The first of equal
    epochs counts. Epochs in which the metric is undefined (NaN) never count, nor do those with a
    validation loss that is not finite: the largest of NaN scores is always class 0.
    """

    value: float = -math.inf  # of the metric, negative where the lowest is the best
    epoch: int | None = None  # counted from 0; None before the first validation
    metrics: dict[str, float] = field(default_factory=dict)  # all that were logged in that epoch
    weights: dict[str, Tensor] = field(default_factory=dict)


class RunRecorder(L.Callback):
    """Make a run's folder, and write its config, metrics, checkpoints and result there.

    The folder holds ``config.yaml`` (resolved: run it again with ``--config``), ``schema.yaml``
    (what the model expects of data),
    ``metrics.csv``, TensorBoard's event file, ``checkpoints/best.ckpt`` (best validation epoch),
    ``checkpoints/last.ckpt`` (everything needed to resume; saved from time to time between two
    epochs, after the step in which a signal came, and at the end), and ``result.json``: status
    (running, finished, diverged, interrupted, failed), metrics, versions, seed, under ``kernels``
    the key of the native kernels that it uses (null: PyTorch alone), and under ``findings`` the
    dict that each callback with a method ``findings`` returns.

    Args:
        root: Folder of all runs.
        name: Name of the run, a folder below root; by default the name of the config file and the
            model and data options changed on the command line, as in gat_lip_30-norm_none.
        save_every_minutes: Minutes between two checkpoints; null: never.
        save_every_epochs: Save a checkpoint every so many epochs as well; null: never.

    Attributes:
        folder: The run's folder, as an absolute path: a part may change the working directory. None
            before it is made.
        best: The best epoch so far.
        monitor: The metric that chooses it.
        result: What ``result.json`` says.
    """

    folder: Any = None
    _lock: int | None = None
    monitor = "val/acc"
    lower_is_better = False

    @in_range
    def __init__(
        self,
        root: str = "runs",
        name: str | None = None,
        save_every_minutes: Positive | None = 1.0,
        save_every_epochs: Count | None = None,
    ) -> None:
        self.root = root
        self.name = name
        self.best = BestEpoch()
        self.save_every_minutes = save_every_minutes
        self.save_every_epochs = save_every_epochs
        self.result: dict[str, Any] = {}
        self._here = Path.cwd()  # a part may leave it
        self._last: dict[str, Tensor] = {}  # metrics of the epoch, also of one that goes on
        self._ended: dict[str, Any] | None = None
        self._is_cut = self._exchanges = False

    @property
    def shown(self) -> Path:
        """The folder as messages name it."""
        return from_here(self.folder or self._here / self.root)

    def open(
        self,
        config: dict[str, Any],
        name: str,
        origin: Origin = Origin(),  # noqa: B008
        resumes: Path | None = None,
    ) -> list[Logger]:
        """Make the run's folder before anything is trained, and the loggers that write into it.

        The config has every default, as plain values. ``name`` is used where none was given. The
        curves in TensorBoard begin with those of the folder of the run that this one resumes.
        """
        self._started = time.perf_counter()
        self._options = config.get("trainer") or {}
        config_text = to_yaml(config)
        name = self.name or name
        # Only the first process makes a folder; setup tells the others which.
        first = getattr(rank_zero_only, "rank", 0) == 0
        self.folder = self._here / (origin.folder or self.root)
        if origin.folder is None and first:
            self.folder = new_run_folder(self.folder, name)
        self.result = {
            "format": FORMAT,
            "status": "running",
            "name": name,
            "seed": config.get("seed_everything"),
            "config_sha256": digest(config_text),
            "started": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            **environment(),
            **origin.facts,
            "hparams": hparams(config),
        }
        loggers = folder_loggers(self.folder, resumes if first else None)
        if first:
            write_atomically(self.folder / "config.yaml", config_text)
            # Held while the process lives, however it ends: ckpt_path auto looks at it.
            self._lock = lock(self.folder)
            write_result(self.folder, self.result)
        return loggers

    @property
    def last_metrics(self) -> dict[str, float]:
        """The metrics of the last epoch; those of an earlier epoch's validation are left out."""
        return in_numbers(self._last)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        self.folder = Path(trainer.strategy.broadcast(str(self.folder)))
        # Before another callback changes the weights, as one that averages them does: a longer
        # training goes on from there. Another list: Lightning goes through the old one now.
        first = LambdaCallback(on_train_end=self.save_end)
        trainer.callbacks = [first, *trainer.callbacks]  # type: ignore[attr-defined]
        task: Any = getattr(pl_module, "task", None)
        if task is not None:  # a class of the user's has none, and may log val/acc
            self.monitor, self.lower_is_better = f"val/{task.best}", task.lower_is_better
        device = trainer.strategy.root_device
        self.result |= {
            "monitor": self.monitor,
            "metric": getattr(type(task), "best", "acc"),  # whatever chooses the best epoch
            "num_parameters": sum(p.numel() for p in pl_module.parameters()),
            "device": device.type,
        }
        if device.type == "cuda":  # seconds of runs on different GPUs do not compare
            self.result["device"] = torch.cuda.get_device_name(device)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        schema = getattr(pl_module, "schema", None)
        if schema is not None and trainer.is_global_zero:
            write_atomically(self.folder / "schema.yaml", schema.text())
        resume_epoch(trainer)
        for logger in trainer.loggers:
            if isinstance(logger, EventLogger) and trainer.global_step:
                logger.resume(trainer.global_step)
        # Schedules may watch the metrics of a validation before a resume.
        for name, value in self._last.items():
            trainer.callback_metrics.setdefault(name, value.to(pl_module.device))
        self._ended = None
        self._first_epoch = trainer.current_epoch
        self._saved = time.monotonic()

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if is_between_epochs(trainer):
            # Lightning keeps them, and an epoch without validation would have those of another.
            trainer.callback_metrics.clear()
        # The first hook after schedules and all callbacks are done with the previous epoch. The
        # first process decides for all.
        done = trainer.current_epoch - self._first_epoch
        is_due = time.monotonic() - self._saved >= 60 * (self.save_every_minutes or math.inf)
        is_due |= done % (self.save_every_epochs or math.inf) == 0
        if trainer.strategy.broadcast(done > 0 and is_due):
            self._save_checkpoints(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.sanity_checking:
            return
        self._last = dict(trainer.callback_metrics)
        value = float(self._last.get(self.monitor, math.nan))
        if self.lower_is_better:
            value = -value
        # Not greater: worse, as good as an earlier one, or NaN.
        is_finite = math.isfinite(self._last.get("val/loss", 0.0))
        if not (is_finite and value > self.best.value):
            return
        # Copies in memory: writing a file in every better epoch would take its time.
        weights, exchanges = measured_weights(trainer)
        self.best = BestEpoch(value, trainer.current_epoch, in_numbers(self._last), weights)
        if exchanges and not self._exchanges:
            rank_zero_only(log.warning)(
                "a callback exchanges the weights for the validation, as averaging does: metrics, "
                "best.ckpt and predictions are of the weights that it puts in place."
            )
            self._exchanges = True

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._last = dict(trainer.callback_metrics)
        if self.best.epoch == trainer.current_epoch:  # with what its validation did not know yet
            self.best.metrics |= in_numbers(self._last)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        # Lightning ends an epoch that max_steps cuts short as if it were whole: a longer training
        # goes on from here.
        if 0 <= trainer.max_steps <= trainer.global_step and not trainer.is_last_batch:
            self._save_checkpoints(trainer)
            self._is_cut = True

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._write_result(trainer, "finished")
        self._release()

    def save_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Save the checkpoints of the end: a run that is marked finished has them."""
        self._last = dict(trainer.callback_metrics)  # max_steps may cut an epoch short
        if trainer.should_stop:  # by a callback, as early stopping does
            self._ended = {name: self._options.get(name) for name in ENDS}
        self._save_checkpoints(trainer)

    def on_exception(
        self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException
    ) -> None:
        if self.folder is None:  # a test, which writes nothing
            return
        status = "failed"
        # Saving waits for all processes. They agree on stopping for a signal, but after another
        # exception in one the others may never arrive.
        saves = isinstance(exception, SIGTERMException) or trainer.world_size == 1
        if isinstance(exception, Diverged):
            status = "diverged"
        elif isinstance(exception, KeyboardInterrupt | SIGTERMException):
            status = "interrupted"
            # A signal that was handled at once may have come in the middle of a step.
            saves = saves and not (isinstance(exception, Stopped) or is_within_step(trainer))
        self.result["reason"] = str(exception) or type(exception).__name__
        if status == "failed" and isinstance(exception, SystemExit):
            self.result["reason"] = f"a part or callback ended the program: {exception!r}"
        self._write_result(trainer, status)
        if saves and status != "failed":
            self._save_checkpoints(trainer)
        self._release()

    def _write_result(self, trainer: L.Trainer, status: str) -> None:
        module: Any = trainer.lightning_module
        metrics, constant = self.last_metrics, None
        if hasattr(module, "chance") and "metric" in self.result:
            constant = module.chance(self.result["metric"])
        for name, value in self.best.metrics.items():
            if name.startswith(("val/", "val_", "test/", "test_")):
                metrics[f"{name}_at_best_val".replace("/", "_")] = value
        self.result |= {
            "status": status,
            "seconds": round(time.perf_counter() - self._started, 3),
            "epochs": trainer.current_epoch,
            "steps": trainer.global_step,
            "best_epoch": self.best.epoch,
            "metrics": metrics,
            # What the best constant prediction reaches, for NodeClassifier alone.
            "constant": constant,
            "initial_averages": initial_share(module, self.best.weights or module.state_dict()),
            "kernels": getattr(module, "kernels", None),
        }
        findings = {}
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            who = type(callback).__name__
            if not hasattr(callback, "findings"):
                continue
            try:
                findings[who] = callback.findings()
            except Exception as error:
                # The device may be gone, and the rest of the result must still be written.
                rank_zero_warn(f"the findings of {who} are not in the result: {error}")
        if findings:
            self.result["findings"] = findings
        if trainer.is_global_zero:
            write_result(self.folder, self.result)
        for logger in trainer.loggers:
            if isinstance(logger, EventLogger):
                logger.log_result(self.result)

    def _release(self) -> None:
        if self._lock is not None:
            (self.folder / LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _save_checkpoints(self, trainer: L.Trainer) -> None:
        last = self.folder / "checkpoints" / "last.ckpt"
        # In a cut epoch the loops look complete at the end: the file of before stays.
        if not self._is_cut:
            trainer.save_checkpoint(last, weights_only=False)
        best = self.best
        if best.epoch is not None:
            save_weights(trainer, last.with_name("best.ckpt"), best.weights, best.epoch)
        self._saved = time.monotonic()

    def on_save_checkpoint(
        self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if is_between_epochs(trainer):
            save_whole_epoch(checkpoint["loops"])

    def state_dict(self) -> dict[str, Any]:
        last = {name: value.detach().cpu() for name, value in self._last.items()}
        return {"best": vars(self.best), "last": last, "ended": self._ended}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self._last = BestEpoch(**state_dict["best"]), state_dict["last"]


def initial_share(model: nn.Module, weights: Mapping[str, Tensor]) -> float:
    r"""The share :math:`(1 - m)^t` of the initial values in the running averages of batch norm.

    m is the momentum and t the number of training steps; 0 for a model without batch norm.

    Args:
        model: Any model.
        weights: Its state.
    """
    share = 0.0
    for name, module in model.named_modules():
        steps = weights.get(f"{name}.num_batches_tracked")
        if isinstance(module, nn.BatchNorm1d) and steps is not None:
            share = max(share, (1 - (module.momentum or 1.0)) ** int(steps))
    return share
