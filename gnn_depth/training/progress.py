"""How far a run is."""

import sys
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import ProgressBar
from tqdm import tqdm

SHOWN = ("train/loss", "val/loss", "val/acc", "test/acc")


class EpochProgress(ProgressBar):
    """One bar over all epochs: a full-batch epoch is one step, and a bar for each would say nothing.

    Where the output is no terminal, a line every tenth of the epochs.
    """

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True
        self._bar: Any = None

    def disable(self) -> None:
        self._enabled = False

    def enable(self) -> None:
        self._enabled = True

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if self._enabled and sys.stderr.isatty():
            self._bar = tqdm(total=trainer.max_epochs, initial=trainer.current_epoch, unit="epoch", mininterval=0.2)

    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not self._enabled:
            return
        done, total = trainer.current_epoch + 1, trainer.max_epochs or -1
        if self._bar is not None:
            self._bar.update()
            # The metrics are read from their device only when the bar is drawn.
            if self._bar.n == self._bar.last_print_n:
                self._bar.set_postfix_str(_metrics(trainer), refresh=False)
        elif total > 0 and (done == total or done * 10 // total > (done - 1) * 10 // total):
            print(f"epoch {done}/{total}: {_metrics(trainer)}", file=sys.stderr, flush=True)

    def on_train_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _metrics(trainer: L.Trainer) -> str:
    known = trainer.callback_metrics
    return ", ".join(f"{name} {known[name].item():.4f}" for name in SHOWN if name in known)
