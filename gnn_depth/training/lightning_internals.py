"""Every use of Lightning's private API, with the reason for it.

Lightning has no public way to

- skip its evaluation loop for a single batch,
- take a step without calling its closure,
- replace its signal handlers,
- see exactly how far its loops are,
- save the weights of an earlier epoch,
- or ask LightningCLI for the arguments of a model as its config has them.

PyTorch has no public way to fix the order in which gradients are summed over processes. Each use
has a test in tests/training/test_lightning_internals.py.
"""

import inspect
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.core.mixins.hparams_mixin import _given_hyperparameters
from lightning.pytorch.loops.evaluation_loop import _EvaluationLoop
from lightning.pytorch.loops.optimization.automatic import ClosureResult
from lightning.pytorch.trainer.states import RunningStage, TrainerFn
from lightning.pytorch.utilities.model_helpers import is_overridden
from lightning.pytorch.utilities.parsing import _get_init_args
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gnn_depth.builder import is_plain_value
from gnn_depth.data.base import FullBatch

# Hooks inside a validation, which the short loop of OneBatchValidation does not call.
INSIDE = (
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_batch_start",
    "on_validation_batch_end",
    "on_validation_epoch_end",
)


# Epochs of one step


def trains_on_full_batch(trainer: L.Trainer) -> bool:
    """True if an epoch is one step on a batch that all processes share."""
    return trainer.num_training_batches == 1 and isinstance(trainer.train_dataloader, FullBatch)


class OneBatchValidation(_EvaluationLoop):
    """Lightning's validation during a fit, shortened where the data is one full batch.

    Lightning's own loop makes iterators, progress bars and result tables for the single batch,
    which takes longer than the batch. Lightning still decides when and how often to validate.
    Lightning's loop runs if there is more than one full batch, and if the module, the data or a
    callback is the user's, or one of Lightning's callbacks has a hook inside the validation
    (:data:`INSIDE`).

    Attributes:
        measured: Copies of the weights that Lightning's loop has measured: a callback that averages
            weights exchanges them around the validation.
    """

    measured: dict[str, Tensor] | None = None

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
        self.measured = None  # of an earlier validation, such as Lightning's sanity check
        self.setup_data()
        trainer, module = self.trainer, self.trainer.lightning_module
        loader: Any = None
        # Not in Lightning's sanity check, which is no validation.
        if is_one_batch_an_epoch(trainer) and not self._is_watched:
            (loader,) = self._combined_loader.flattened  # type: ignore[union-attr]
        if not isinstance(loader, FullBatch):
            return super().run()
        batch = trainer.precision_plugin.convert_input(loader.batch)
        batch = trainer.strategy.batch_to_device(batch)  # which keeps its copy there
        self.batch_progress.reset_on_run()
        with evaluation_mode(module), torch.no_grad():
            trainer.strategy.validation_step(batch, 0)
            self.batch_progress.increment_by(1, is_last_batch=True)
            module.on_validation_epoch_end()
            self._has_run = True  # otherwise a resumed fit would validate again
            self._restarting = False
            for callback in trainer.callbacks:  # type: ignore[attr-defined]
                callback.on_validation_end(trainer, module)
        # For a val_check_interval that is a time.
        trainer._last_val_time = time.monotonic()  # type: ignore[attr-defined]
        return []

    def _build_step_args_from_hook_kwargs(self, *args: Any) -> tuple:
        # Between all hooks that may put weights in place and those that take them away.
        self.measured = _copies(self.trainer.lightning_module.state_dict())
        return super()._build_step_args_from_hook_kwargs(*args)

    @cached_property
    def _is_watched(self) -> bool:
        trainer: Any = self.trainer
        for each in (trainer.lightning_module, trainer.datamodule, *trainer.callbacks):
            place = type(each).__module__
            if place.startswith("gnn_depth."):  # ours has no such hook
                continue
            if not place.startswith("lightning."):
                return True
            if any(is_overridden(hook, each, L.Callback) for hook in INSIDE):
                return True
        return False


def measured_weights(trainer: L.Trainer) -> tuple[dict[str, Tensor], bool]:
    """Copies of the weights that the last validation measured, and whether a callback has put
    others in their place since."""
    now = trainer.lightning_module.state_dict()
    measured = getattr(trainer.fit_loop.epoch_loop.val_loop, "measured", None)
    if measured is None:
        return _copies(now), False
    return measured, any(not torch.equal(weight, now[name]) for name, weight in measured.items())


def _copies(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in weights.items()}


def is_one_batch_an_epoch(trainer: L.Trainer) -> bool:
    """True during a fit on one full batch: in training, and in a validation that is one batch."""
    validates = (
        trainer.state.fn == TrainerFn.FITTING
        and trainer.validating
        and trainer.num_val_batches == [1]
    )
    return trains_on_full_batch(trainer) and (trainer.training or validates)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Call ``model.eval()``, and afterwards restore each module's previous mode.

    Sets the flag of each module directly, which is far cheaper than ``eval`` and ``train`` for deep
    stacks.
    """
    modules = [model]
    for module in modules:  # also visits the children that are appended
        modules += [child for child in module._modules.values() if child is not None]
    training = [module for module in modules if module.training]
    if all(type(module).train is nn.Module.train for module in modules):
        _set_training(training, False)
    else:  # a module has a ``train`` of its own, which must be called
        model.eval()
    try:
        yield
    finally:
        _set_training(training, True)


def _set_training(modules: list[nn.Module], mode: bool) -> None:
    for module in modules:
        # nn.Module.__setattr__ would check whether the flag is a parameter, buffer or module.
        object.__setattr__(module, "training", mode)


# A step


def take_result(closure: Any, loss: Tensor) -> None:
    """Give Lightning the loss of a step that was taken without calling its closure."""
    closure._result = ClosureResult(loss)


# Progress of the loops


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
    """True if a step has begun and not ended.

    Then perhaps only some parameters are updated, or gradients are still accumulating.
    """
    batches: Any = trainer.fit_loop.epoch_loop.batch_progress.current
    return batches.ready != batches.processed or trainer.fit_loop.epoch_loop._should_accumulate()


def resume_epoch(trainer: L.Trainer) -> None:
    """Continue an epoch as if it had not been interrupted; between two epochs, begin a whole one.

    This corrects Lightning in three cases.

    1. At the end of a resumed epoch it skips a schedule that watches a metric.
    2. With ``max_steps`` it mistakes a training stopped between two epochs for one stopped within
       an epoch, and counts a step that it does not take.
    3. After a validation within an epoch it counts the step before the validation twice.
    """
    loop = trainer.fit_loop
    loop._restarting = False  # the public setter would also change all inner loops
    if is_between_epochs(trainer):
        loop.epoch_loop.restarting = False
    elif loop.epoch_loop.restarting and loop._data_fetcher is not None:
        progress: Any = loop.epoch_loop.batch_progress.current
        if progress.completed == progress.ready and loop.epoch_loop._should_check_val_fx(
            loop._data_fetcher
        ):
            loop.epoch_loop._batches_that_stepped -= 1


def keep_order_of_gradients(model: nn.Module | None) -> None:
    """Sum gradients over processes in the same order in every step.

    Otherwise a resumed training differs in its last bits. ``DistributedDataParallel`` repacks the
    gradients after its first step, and the place of a gradient decides in which order three or more
    processes add it up. Here they are packed in their final order from the start.
    """
    if isinstance(model, DistributedDataParallel) and model.process_group.size() > 2:
        model.reducer._push_all_rebuilt_params()
        model.reducer._rebuild_buckets()


def take_time_limits(trainer: L.Trainer) -> list[tuple[Timer, float]]:
    """Remove the time limits of a trainer's timers, and return the timers with their limits.

    A timer whose limit is over would end the training as if it were finished.
    """
    limits = []
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, Timer) and callback._duration is not None:
            limits.append((callback, callback._duration))
            callback._duration = None
    return limits


def save_whole_epoch(loops: dict[str, Any]) -> None:
    """Edit a saved state of Lightning's loops so that a resumed training begins a whole epoch.

    The state must be saved between two epochs. Without the edit, the hook that saved it decides
    whether the next epoch is run or only counted.
    """
    epochs = loops["fit_loop"]["epoch_progress"]
    for progress in (epochs["total"], epochs["current"]):
        progress["ready"] = progress["started"] = progress["completed"] = progress["processed"]
    batches = loops["fit_loop"]["epoch_loop.batch_progress"]
    batches["current"] = dict.fromkeys(batches["current"], 0)
    batches["is_last_batch"] = False


def save_weights(trainer: L.Trainer, path: Path, weights: dict[str, Tensor], epoch: int) -> None:
    """Save a checkpoint with the weights of an earlier epoch, without the optimizer's state."""
    checkpoint = trainer._checkpoint_connector.dump_checkpoint(weights_only=True)
    trainer.strategy.save_checkpoint(checkpoint | {"state_dict": weights, "epoch": epoch}, path)
    trainer.strategy.barrier()


# Signals


def replace_signal_handlers(trainer: L.Trainer, connector: Any) -> None:
    """Replace Lightning's signal handlers, which would talk to other processes in the middle of a
    step.

    Args:
        trainer: The trainer.
        connector: Its ``register_signal_handlers`` is called after everything is set up or
            restored, its ``teardown`` at the end. Between two steps and after each epoch the
            trainer raises ``SIGTERMException`` if its ``received_sigterm`` is true.
    """
    trainer._signal_connector = connector


# The module


class SafeCheckpointModule(L.LightningModule):
    """A LightningModule whose checkpoints hold only plain data, and name the objects left out."""

    _inherited: Collection[str] = ()  # options that a subclass's constructor passes on by itself

    @property
    def attached_trainer(self) -> L.Trainer | None:
        """The trainer, or None without one; ``trainer`` would raise an error then."""
        return self._trainer

    def keep_arguments(self, *classes: type) -> None:
        """Keep the plain arguments of the constructor that runs now in checkpoints, and note which
        are objects.

        Args:
            classes: Those whose constructors get them; the defaults of the last one count. Of a
                subclass with a constructor of its own, checkpoints have that one's arguments.
        """
        defaults = {}
        for cls in classes:
            for name, parameter in inspect.signature(cls).parameters.items():
                if parameter.default is not parameter.empty:
                    defaults[name] = parameter.default
        options, frame, passes_on = dict(defaults), inspect.currentframe(), 0
        calls: list[dict[str, Any]] = []
        # From the constructor of the last class to that of the class that was called.
        while frame is not None:
            if frame.f_code.co_name == "__init__" and frame.f_locals.get("self") is self:
                passes_on = frame.f_code.co_flags & inspect.CO_VARARGS
                calls.append(_get_init_args(frame)[1])
                options |= calls[-1]
            frame = frame.f_back
        # Objects that LightningCLI has made stand in its config as text.
        options |= _given_hyperparameters.get() or {}
        if len(calls) > 1 and not passes_on:  # one of *args passes on what it was given
            self._inherited = options.keys() - calls[-1].keys()
        self.keep_options(options, defaults)

    def keep_options(self, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        """Keep the plain ones of some options in checkpoints, and note which are objects."""
        plain = {}
        self._given_as_objects = []
        for name, value in options.items():
            if isinstance(value, tuple):
                value = list(value)  # YAML has no tuples
            if is_plain_value(value):
                plain[name] = value
            elif value is not defaults.get(name) and name not in self._inherited:
                self._given_as_objects.append(name)
        self.save_hyperparameters(plain)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["given_as_objects"] = self._given_as_objects
        options = checkpoint.get("hyper_parameters", {})
        # Names of LightningCLI begin with an underline: what it would import and call.
        for name in [name for name in options if name in self._inherited or name.startswith("_")]:
            del options[name]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse to replace by defaults the objects that the checkpoint could not hold."""
        missing = set(checkpoint.get("given_as_objects", ())) - set(self._given_as_objects)
        if missing:
            raise ValueError(
                "this model was built in Python, and its checkpoint does not hold "
                f"{', '.join(sorted(missing))}: "
                "give the same to load_from_checkpoint."
            )
