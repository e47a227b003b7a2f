"""Callbacks that watch a metric: their mode, and epochs in which the metric is undefined.

Early stopping, saved checkpoints and ``ReduceLROnPlateau`` name a metric to watch, and by default
look for its smallest value. The task knows the right direction: an accuracy is best at its largest.
"""

import math
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import ReduceLROnPlateau
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from gnn_depth.builder import Chosen
from gnn_depth.data.checks import SPLITS
from gnn_depth.registry import registered
from gnn_depth.training.tasks import Task

WATCHERS = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau")
DEFAULT_MODE, OTHER_MODE = "min", "max"


def mode_of(monitor: str, task: Task | None = None) -> str | None:
    """The mode that finds the best of a metric, such as ``max`` for ``val/acc``; None if unknown.

    Without a task all registered ones are asked, and must agree.
    """
    split, _, name = monitor.partition("/")
    if split not in SPLITS:
        return None
    if task is not None:
        return task.directions().get(name)
    modes = set()
    for cls in registered("task").values():
        made: Task = cls(2)  # two outputs, which every task can have
        modes.add(made.directions().get(name))
    modes.discard(None)  # of tasks without this metric
    if len(modes) != 1:
        return None
    return modes.pop()


def with_modes(chosen: Any) -> Any:
    """Chosen callbacks and schedules, with the mode of what they watch where none is written.

    Args:
        chosen: A chosen part, or a list or dict of them; other values stay.

    Raises:
        MisconfigurationException: One has the wrong mode.
    """
    if isinstance(chosen, list):
        return [with_modes(each) for each in chosen]
    if isinstance(chosen, dict):
        return {key: with_modes(each) for key, each in chosen.items()}
    if not isinstance(chosen, Chosen):
        return chosen
    given = chosen.options
    # Without its class, which is not imported for --help, the written name has to do.
    classes = getattr(chosen.part.cls, "__mro__", ())
    watcher = _watcher_name(classes) or chosen.part.class_name
    mode = mode_to_use(watcher, given.get("monitor"), given.get("mode"))
    if mode is None or "mode" not in chosen.part.options:
        return chosen
    return Chosen(chosen.part, {**given, "mode": mode})


def _watcher_name(classes: Iterable[type]) -> str:
    """The first of :data:`WATCHERS` among a class and its bases, which may be a user's own; empty
    if none is."""
    names = (cls.__name__ for cls in classes if cls.__name__ in WATCHERS)
    return next(names, "")


def mode_to_use(
    watcher: str, monitor: Any, written: str | None, task: Task | None = None
) -> str | None:
    """The mode in which a callback or schedule must watch a metric; None if that is not known.

    Args:
        watcher: The name of its class.
        monitor: The metric.
        written: The mode that the user wrote; None if there is none.
        task: The task, if it is known.

    Raises:
        MisconfigurationException: The user wrote the wrong mode, or no metric's name.
    """
    if watcher not in WATCHERS or not isinstance(monitor, str):
        return None
    split, underscore, name = monitor.partition("_")
    if underscore and split in SPLITS:  # as other libraries write it
        raise MisconfigurationException(
            f"{watcher}: there is no metric {monitor!r}. Did you mean '{split}/{name}'?"
        )
    right = mode_of(monitor, task)
    if right is not None and written not in (None, right):
        better = {"max": "larger", "min": "smaller"}[right]
        raise MisconfigurationException(
            f"{watcher} watches {monitor}, of which {better} is better, in mode {written!r}: "
            f"use mode {right}, or leave mode out."
        )
    return right


def prepare_callbacks(trainer: L.Trainer, task: Task) -> None:
    """Let a trainer's callbacks watch metrics in the right mode, and only where they are defined.

    Raises:
        MisconfigurationException: One has the wrong mode.
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if not isinstance(callback, EarlyStopping | ModelCheckpoint) or callback.monitor is None:
            continue
        is_wrong = _has_wrong_mode(callback, task)
        if is_wrong:
            callback.mode = OTHER_MODE
        if isinstance(callback, EarlyStopping):
            if is_wrong:
                callback.min_delta = -callback.min_delta  # it has the sign of the mode
                callback.best_score = torch.tensor(-math.inf)
            for hook in ("on_train_epoch_end", "on_validation_end"):
                setattr(callback, hook, _where_defined(getattr(callback, hook), callback.monitor))
        else:
            if is_wrong:
                callback.kth_value = torch.tensor(-math.inf)
            _save_where_defined(callback)


def prepare_schedule(schedule: ReduceLROnPlateau, task: Task) -> None:
    """Let a schedule watch its metric in the right mode.

    Raises:
        MisconfigurationException: It has the wrong mode.
    """
    if _has_wrong_mode(schedule, task):
        schedule.load_state_dict(schedule.state_dict() | {"mode": OTHER_MODE, "best": -math.inf})


def is_new(monitor: str, trainer: L.Trainer) -> bool:
    """True if a metric was computed in this epoch: those of validation, which measures the test
    rows too, are old in epochs without it."""
    every = trainer.check_val_every_n_epoch
    is_of_validation = monitor.partition("/")[0] in ("val", "test")
    return not is_of_validation or every is None or (trainer.current_epoch + 1) % every == 0


def _has_wrong_mode(
    watcher: EarlyStopping | ModelCheckpoint | ReduceLROnPlateau, task: Task
) -> bool:
    """True if a watcher has the default mode, and its metric is best at its largest; this is also
    told to the user.

    Raises:
        MisconfigurationException: It has another wrong mode.
    """
    kind, monitor = _watcher_name(type(watcher).__mro__), watcher.monitor
    # In Python nobody can tell a default from the same value, written.
    written = None if watcher.mode == DEFAULT_MODE else watcher.mode
    right = mode_to_use(kind, monitor, written, task)
    if right in (None, watcher.mode):
        return False
    rank_zero_info(f"{kind} watches {monitor} in mode {right}: larger is better.")
    return True


def _where_defined(hook: Callable[..., None], monitor: str) -> Callable[..., None]:
    """A hook that does nothing in epochs in which a metric is undefined, or an old one."""
    if getattr(hook, "where_defined", False):  # from an earlier fit with the same callback
        return hook

    @wraps(hook)
    def called(trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        value = trainer.callback_metrics.get(monitor)
        if is_new(monitor, trainer) and not is_undefined(value):
            hook(trainer, pl_module)

    called.where_defined = True  # type: ignore[attr-defined]
    return called


def _save_where_defined(callback: ModelCheckpoint) -> None:
    """Replace the check whether a checkpoint is among the best ones: it never is in epochs in which
    its metric is undefined, or an old one."""
    check = callback.check_monitor_top_k

    def is_among_best(trainer: L.Trainer, current: Tensor | None = None) -> bool:
        is_known = is_new(str(callback.monitor), trainer) and not is_undefined(current)
        return is_known and check(trainer, current)

    callback.check_monitor_top_k = is_among_best  # type: ignore[method-assign]


def is_undefined(value: Tensor | float | None) -> bool:
    """True if the value of a metric is NaN."""
    return isinstance(value, Tensor | float) and math.isnan(value)
