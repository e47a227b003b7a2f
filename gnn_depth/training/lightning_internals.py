"""Every use of Lightning's private API, with its reason; tests/training/test_lightning_internals.py
tests each.

Lightning has no public way to skip its evaluation loop for one batch, to handle signals otherwise,
to see exactly how far its loops are, to save the weights of an earlier epoch, or to keep objects
out of a checkpoint's hyperparameters; PyTorch has none to keep the order in which gradients are
summed over processes.
"""

import inspect
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.loops.evaluation_loop import _EvaluationLoop
from lightning.pytorch.strategies import Strategy
from lightning.pytorch.trainer.states import RunningStage, TrainerFn
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gnn_depth.data.base import FullBatch, NodeBatch

# Validation hooks that a user's callback may implement; ours do not. The short loop calls only the
# module's last one.
INSIDE = (
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_batch_start",
    "on_validation_batch_end",
    "on_validation_epoch_end",
)
MODES = ("on_validation_model_eval", "on_validation_model_train")
TRANSFER = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


# ---------------------------------------------------------------------------------------- epochs of
# one step


def trains_on_full_batch(trainer: L.Trainer) -> bool:
    """True if an epoch is one step on a batch that all processes share."""
    return trainer.num_training_batches == 1 and isinstance(trainer.train_dataloader, FullBatch)


class OneBatchValidation(_EvaluationLoop):
    """Lightning's validation during a fit, shortened where the data is one full batch.

    Lightning's own loop makes iterators, progress bars and result tables for the single batch,
    which takes longer than the batch. Lightning still decides when and how often to validate. Its
    own loop runs if there is more than one full batch, or if a hook inside the validation is
    implemented (:data:`INSIDE`).
    """

    _watched: bool | None = None
    _moved: tuple[NodeBatch, NodeBatch] | None = (
        None  # the loader's batch, and its copy on the device
    )

    @classmethod
    def replace(cls, trainer: L.Trainer) -> None:
        """Replace the validation loop of a trainer's fit."""
        old = trainer.fit_loop.epoch_loop.val_loop
        new = cls(
            trainer, TrainerFn.FITTING, RunningStage.VALIDATING, verbose=False, inference_mode=False
        )
        new._data_source = old._data_source  # where the loop gets its loader from
        trainer.fit_loop.epoch_loop.val_loop = new

    def run(self) -> list:
        self.setup_data()
        if not self._is_one_full_batch() or self._is_watched():
            return super().run()
        trainer, module, batch = (
            self.trainer,
            self.trainer.lightning_module,
            self._batch_on_device(),
        )
        self.batch_progress.reset_on_run()
        with evaluation_mode(module), torch.no_grad():
            trainer.strategy.validation_step(batch, 0)
            self.batch_progress.increment_by(1, is_last_batch=True)
            module.on_validation_epoch_end()
            self._has_run = True  # a resumed fit would run it again otherwise
            self._restarting = False
            for callback in trainer.callbacks:  # type: ignore[attr-defined]
                callback.on_validation_end(trainer, module)
            module.on_validation_end()
        trainer._last_val_time = time.monotonic()  # type: ignore[attr-defined]  # for val_check_interval in time
        return []

    def _batch_on_device(self) -> NodeBatch:
        assert self._combined_loader is not None
        batch: NodeBatch = self._combined_loader.flattened[0].batch
        if self._moved is None or self._moved[0] is not batch:
            trainer = self.trainer
            self._moved = (
                batch,
                trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch)),
            )
        return self._moved[1]

    def teardown(self) -> None:
        super().teardown()
        self._moved = None

    def _is_one_full_batch(self) -> bool:
        loaders = [] if self._combined_loader is None else self._combined_loader.flattened
        return (
            len(loaders) == 1
            and isinstance(loaders[0], FullBatch)
            and trains_on_full_batch(self.trainer)
            and self._max_batches == [1]  # limit_val_batches applied
            and not self.trainer.sanity_checking
        )

    def _is_watched(self) -> bool:
        if self._watched is None:
            watchers = [
                (
                    self.trainer.lightning_module,
                    L.LightningModule,
                    (*INSIDE[:-1], *MODES, *TRANSFER),
                ),
                (self.trainer.datamodule, L.LightningDataModule, TRANSFER),  # type: ignore[attr-defined]
                (self.trainer.strategy, Strategy, ("on_validation_start", "on_validation_end")),
                *((callback, L.Callback, INSIDE) for callback in self.trainer.callbacks),  # type: ignore[attr-defined]
            ]
            self._watched = any(
                is_overridden(hook, who, kind) for who, kind, hooks in watchers for hook in hooks
            )
        return self._watched


def is_one_batch_an_epoch(trainer: L.Trainer) -> bool:
    """True in a fit on the full batch: in its training, and in its validation if that is one batch,
    too."""
    validates = (
        trainer.state.fn == TrainerFn.FITTING
        and trainer.validating
        and trainer.num_val_batches == [1]
    )
    return trains_on_full_batch(trainer) and (trainer.training or validates)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Call ``model.eval()``, and afterwards restore each module's previous mode.

    Sets the flags of all modules directly, which is far cheaper than ``eval`` and ``train`` for
    deep stacks.
    """
    modules = [model]
    for module in modules:  # grows while it is walked
        modules += [child for child in module._modules.values() if child is not None]
    training = [module for module in modules if module.training]
    if all(type(module).train is nn.Module.train for module in modules):
        _set_training(training, False)
    else:  # a module does something of its own when the mode changes
        model.eval()
    try:
        yield
    finally:
        _set_training(training, True)


def _set_training(modules: list[nn.Module], mode: bool) -> None:
    for module in modules:
        # nn.Module.__setattr__ would check whether the flag is a parameter, buffer or module.
        object.__setattr__(module, "training", mode)


# --------------------------------------------------------------------------------------- progress
# of the loops


def is_between_epochs(trainer: L.Trainer) -> bool:
    """True if the last epoch is complete and no batch of the next one has begun."""
    epoch: Any = trainer.fit_loop.epoch_progress.current
    batches = trainer.fit_loop.epoch_loop.batch_progress
    if epoch.started == epoch.processed:  # before an epoch, or after it
        return epoch.processed == epoch.completed and (
            batches.is_last_batch or batches.current.ready == 0
        )
    return batches.current.ready == 0


def is_within_step(trainer: L.Trainer) -> bool:
    """True if a step has begun and not ended: only some parameters are updated, or gradients are
    still accumulating."""
    batches: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    return batches.ready != batches.processed or trainer.fit_loop.epoch_loop._should_accumulate()


def resume_epoch(trainer: L.Trainer) -> None:
    """Continue an epoch as if it had not been interrupted; between two epochs, begin a whole one.

    This corrects Lightning in three cases. At the end of a resumed epoch it skips a schedule that
    watches a metric. With ``max_steps`` it mistakes a training stopped between two epochs for one
    stopped within an epoch, and counts a step that it does not take. After a validation within an
    epoch it counts the step before the validation twice.
    """
    loop = trainer.fit_loop
    loop._restarting = False  # its public setter would set all inner loops, too
    if is_between_epochs(trainer):
        loop.epoch_loop.restarting = False
    elif loop.epoch_loop.restarting and loop._data_fetcher is not None:
        progress: Any = loop.epoch_loop.batch_progress.current
        if progress.completed == progress.ready and loop.epoch_loop._should_check_val_fx(
            loop._data_fetcher
        ):
            loop.epoch_loop._batches_that_stepped -= 1


def keep_order_of_gradients(model: Any) -> None:
    """Sum gradients over processes in the same order in every step, as a resumed training must.

    ``DistributedDataParallel`` packs the gradients in another order after its first step, and where
    a gradient lies decides in which order three or more processes add their shares. This packs them
    in one order from the start.
    """
    if isinstance(model, DistributedDataParallel) and model.process_group.size() > 2:
        model.reducer._push_all_rebuilt_params()
        model.reducer._rebuild_buckets()


def take_time_limits(trainer: L.Trainer) -> list[tuple[Timer, float]]:
    """Remove and return the limits of a trainer's timers: a timer would end a training as if it
    were finished."""
    timers = [callback for callback in trainer.callbacks if isinstance(callback, Timer)]  # type: ignore[attr-defined]
    limits = [(timer, timer._duration) for timer in timers if timer._duration is not None]
    for timer, _ in limits:
        timer._duration = None
    return limits


def save_whole_epoch(loops: dict[str, Any]) -> None:
    """Edit the state of Lightning's loops, saved between two epochs, so that a resumed training
    begins a whole epoch.

    Otherwise the next epoch is run or only counted, depending on the hook in which the checkpoint
    was saved.
    """
    epochs = loops["fit_loop"]["epoch_progress"]
    for progress in (epochs["total"], epochs["current"]):
        progress["ready"] = progress["started"] = progress["completed"] = progress["processed"]
    batches = loops["fit_loop"]["epoch_loop.batch_progress"]
    batches["current"] = dict.fromkeys(batches["current"], 0)
    batches["is_last_batch"] = False


def save_weights(trainer: L.Trainer, path: Path, weights: dict[str, Tensor], epoch: int) -> None:
    """Save a checkpoint without the optimizer's state, of an earlier epoch than the current one."""
    checkpoint = trainer._checkpoint_connector.dump_checkpoint(weights_only=True)
    trainer.strategy.save_checkpoint(checkpoint | {"state_dict": weights, "epoch": epoch}, path)
    trainer.strategy.barrier()


# --------------------------------------------------------------------------------------------------
# signals


def replace_signal_handling(
    trainer: L.Trainer, begin: Callable[[], None], is_stopping: Callable[[], bool]
) -> None:
    """Keep Lightning from installing signal handlers, which talk to the other processes in the
    middle of a step.

    ``begin`` is called instead, when all is set up or restored. Between two steps and after each
    epoch the trainer asks ``is_stopping``, and if it is, raises ``SIGTERMException``.
    """

    class Signals:
        """Stands for the object that the trainer asks whether a signal has arrived."""

        received_sigterm = property(lambda self: is_stopping())

        def register_signal_handlers(self) -> None:
            begin()

        def teardown(self) -> None:
            """Nothing to restore: checkpoints that are saved after the last step are saved
            undisturbed."""

    trainer._signal_connector = Signals()  # type: ignore[assignment]


# --------------------------------------------------------------------------------------------------
# the module


class PlainModule(L.LightningModule):
    """A LightningModule whose checkpoints hold only plain data, and which knows what is missing
    from them."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Lightning sets this for every hook that it calls, and nn.Module would check whether it is
        # a parameter.
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    @property
    def attached_trainer(self) -> L.Trainer | None:
        """The trainer, or None if there is none, where ``trainer`` would raise an error."""
        return self._trainer

    def _save_plain_hyperparameters(self, options_of: type) -> None:
        """Save the constructor's arguments that are plain data: those of a config, but no objects
        passed in Python."""
        frame = inspect.currentframe()
        self.save_hyperparameters(frame=frame and frame.f_back)
        parameters = {
            **inspect.signature(options_of).parameters,
            **inspect.signature(type(self)).parameters,
        }
        defaults = {
            name: each.default
            for name, each in parameters.items()
            if each.default is not each.empty
        }
        # save_hyperparameters keeps one dict for checkpoints and a copy for loggers, both private.
        kept: tuple[Any, ...] = self._hparams, self._hparams_initial
        for hparams in kept:
            hparams.update(
                {name: default for name, default in defaults.items() if name not in hparams}
            )
            # YAML has no tuples.
            hparams.update(
                {name: list(value) for name, value in hparams.items() if isinstance(value, tuple)}
            )
        objects = [name for name, value in self.hparams.items() if not _is_plain(value)]
        self._given_as_objects = [
            name for name in objects if self.hparams[name] is not defaults.get(name)
        ]
        self.remove_ignored_hparams(objects)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["given_as_objects"] = self._given_as_objects

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Raise an error if defaults would replace parts that the checkpoint could not hold."""
        missing = set(checkpoint.get("given_as_objects", ())) - set(self._given_as_objects)
        if missing:
            raise ValueError(
                "this model was built in Python, and its checkpoint does not hold "
                f"{', '.join(sorted(missing))}: "
                "give the same to load_from_checkpoint."
            )


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)
