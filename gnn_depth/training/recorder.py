"""The callback that records a run."""

import datetime as dt
import time
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only, rank_zero_warn
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch import Tensor

from gnn_depth.runs import FORMAT, Origin, digest, environment, new_run_folder, write_atomically, write_result
from gnn_depth.signals import Stopped
from gnn_depth.training.autosave import Autosave
from gnn_depth.training.best import BestEpoch, numbers
from gnn_depth.training.between_epochs import begin_next_epoch, go_on, is_between_epochs, is_within_step
from gnn_depth.training.checkpoint_io import sync_folder
from gnn_depth.training.divergence import Diverged
from gnn_depth.training.loggers import folder_loggers
from gnn_depth.training.metrics import selection_metric


class RunRecorder(L.Callback):
    """Give a run its folder and write there what it was and what came of it.

    The folder holds ``config.yaml`` (resolved: run it again with ``--config``), ``metrics.csv``, TensorBoard's
    event file, ``checkpoints/best.ckpt`` (best validation epoch), ``checkpoints/last.ckpt`` (all that it takes to go
    on: saved between two epochs from time to time, after the step in which a signal came, and at the end), and
    ``result.json``: status (running, finished, diverged, interrupted, failed), metrics, versions, seed, and as
    ``findings`` what callbacks found out that have a method of this name, which gives a dict.

    Args:
        root: Folder of all runs.
        name: Name of the run, a folder below root; the config file's name by default.
        save_every_minutes: Time between two saves in a training, of which saving takes a hundredth at most; null: none.
        save_every_epochs: Epochs between two saves besides; null: none.

    Raises:
        ValueError: One of the times is not positive.
    """

    def __init__(
        self,
        root: str = "runs",
        name: str | None = None,
        save_every_minutes: float | None = 1.0,
        save_every_epochs: int | None = None,
    ) -> None:
        self.root = root
        self.name = name
        self.folder: Path | None = None
        self.best = BestEpoch()
        self.autosave = Autosave(save_every_minutes, save_every_epochs)
        self.result: dict[str, Any] = {}
        self._last: dict[str, Tensor] = {}
        self._hparams: dict[str, Any] = {}

    def open(
        self,
        config_text: str,
        hparams: dict[str, Any],
        name: str,
        seed: int | None,
        origin: Origin = Origin(),  # noqa: B008
    ) -> list[Logger]:
        """Make the run's folder before anything is trained, and the loggers that write into it.

        Args:
            config_text: The resolved config, as YAML.
            hparams: The same, flattened to dotted keys and plain values, for TensorBoard's HParams page.
            name: Name of the run where none was given.
            seed: The run's seed.
            origin: What the run is part of, and the folder that it got there.

        Raises:
            ValueError: The folder cannot be made or written.
        """
        self._started = time.perf_counter()
        self._hparams = hparams
        # Only the first process makes a folder; the others are told which in setup.
        first = getattr(rank_zero_only, "rank", 0) == 0
        self.folder = origin.folder or (new_run_folder(self.root, self.name or name) if first else Path(self.root))
        self.result = {
            "format": FORMAT,
            "status": "running",
            "name": self.name or name,
            "seed": seed,
            "config_sha256": digest(config_text),
            "started": dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds"),
            **environment(),
            **origin.facts,
            "hparams": hparams,
        }
        loggers = folder_loggers(self.folder)
        self._write_config(config_text)
        self._write()
        return loggers

    @rank_zero_only
    def _write_config(self, text: str) -> None:
        assert self.folder is not None
        write_atomically(self.folder / "config.yaml", text)

    @rank_zero_only
    def _write_mask(self, mask: Tensor) -> None:
        assert self.folder is not None
        np.save(self.folder / "missing_mask.npy", mask.cpu().numpy())

    @rank_zero_only
    def _write(self) -> None:
        assert self.folder is not None
        write_result(self.folder, self.result)

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        if self.folder is None:
            return
        self.folder = Path(trainer.strategy.broadcast(str(self.folder)))
        data = trainer.datamodule  # type: ignore[attr-defined]
        self.best.monitor = selection_metric(getattr(data, "task", "multiclass"))
        self.result["num_parameters"] = sum(p.numel() for p in pl_module.parameters())
        if (missing := getattr(data, "missing_mask", None)) is not None:
            self.result["missing_hash"] = data.missing_hash
            self._write_mask(missing)

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        go_on(trainer)
        self.autosave.start(trainer.current_epoch)

    def on_train_epoch_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        # The first moment at which schedules and all callbacks are done with the epoch before.
        if self.folder is not None and self.autosave.due(trainer):
            self._save_checkpoints(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.sanity_checking:
            self._last = dict(trainer.callback_metrics)
            self.best.see(trainer.current_epoch, self._last, pl_module)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._last = dict(trainer.callback_metrics)
        self.best.complete(trainer.current_epoch, self._last)

    def on_fit_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self.folder is not None:
            self._save_checkpoints(trainer)  # first: what says finished has everything
            self._close(trainer, "finished")

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        if self.folder is None or not self.result:
            return
        status = "failed"
        if isinstance(exception, Diverged):
            status = "diverged"
        elif isinstance(exception, KeyboardInterrupt | SystemExit):
            status = "interrupted"
        self.result["reason"] = str(exception) or type(exception).__name__
        self._close(trainer, status)
        # Saving waits for all processes. Those that a signal ended agreed on it; after another exception in one the
        # others may never come. A signal that was answered at once may have come before or in the middle of a step.
        together = isinstance(exception, SIGTERMException) or trainer.world_size == 1
        half_done = isinstance(exception, Stopped) or (status == "interrupted" and is_within_step(trainer))
        if status != "failed" and together and not half_done:
            self._save_checkpoints(trainer)

    def _close(self, trainer: L.Trainer, status: str) -> None:
        assert self.folder is not None
        self.result |= {
            "status": status,
            "seconds": round(time.perf_counter() - self._started, 3),
            "epochs": trainer.current_epoch,
            "steps": trainer.global_step,
            "best_epoch": self.best.epoch,
            "metrics": self._metrics(),
        }
        if found := _findings(trainer):
            self.result["findings"] = found
        self._write()
        self._log_hparams(trainer)

    def _metrics(self) -> dict[str, float]:
        """Metrics of the last epoch, and as ``X_at_best_val`` those of the best validation epoch."""
        best = {f"{name}_at_best_val".replace("/", "_"): value for name, value in self.best.metrics.items()}
        return numbers(self._last) | {name: value for name, value in best.items() if name.startswith(("val_", "test_"))}

    def _save_checkpoints(self, trainer: L.Trainer) -> None:
        assert self.folder is not None
        began = time.monotonic()
        trainer.save_checkpoint(self.folder / "checkpoints" / "last.ckpt", weights_only=False)
        self.best.save(trainer, self.folder / "checkpoints" / "best.ckpt")
        if trainer.is_global_zero:
            sync_folder(self.folder / "checkpoints")
        self.autosave.saved(began)

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        if is_between_epochs(trainer):
            begin_next_epoch(checkpoint["loops"])

    @rank_zero_only
    def _log_hparams(self, trainer: L.Trainer) -> None:
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.log_hyperparams(self._hparams, final_metrics(self.result["metrics"]))

    def state_dict(self) -> dict[str, Any]:
        return self.best.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best.load_state_dict(state_dict)


def final_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """The few numbers that runs are compared by on the HParams page; every metric there is a card of its own."""
    compared = [name for name in metrics if name.endswith(("acc_at_best_val", "auroc_at_best_val"))]
    compared += [name for name in ("train/loss", "val/loss") if name in metrics]
    return {f"final/{name.replace('/', '_')}": metrics[name] for name in compared}


def _findings(trainer: L.Trainer) -> dict[str, Any]:
    """What callbacks that have a method ``findings`` found out, under the names of their classes."""
    found = {}
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if callable(ask := getattr(callback, "findings", None)):
            try:
                found[type(callback).__name__] = ask()
            except Exception as error:  # a device may be gone, and the rest is to be written nevertheless
                rank_zero_warn(f"what {type(callback).__name__} found is not in the result: {error}")
    return found


def report(recorder: RunRecorder) -> str:
    """What a user wants to know when a run has ended: metrics, the folder, how to look at the curves."""
    result = recorder.result
    metrics = result.get("metrics", {})
    rows = [f"  {name:<24}{value:>9.4f}" for name, value in sorted(metrics.items()) if name != "train/lr"]
    head = f"{result['status']} after {result['epochs']} epochs in {result['seconds']:.1f} s"
    known = result["best_epoch"] is not None
    best = f"best validation in epoch {result['best_epoch'] + 1}" if known else "no validation, so no best epoch"
    last = [
        f"parameters: {result['num_parameters']:,}",
        f"run folder: {recorder.folder}",
        f"curves:     tensorboard --logdir {recorder.root}",
    ]
    return "\n".join([f"{head}, {best}", *rows, *last])
