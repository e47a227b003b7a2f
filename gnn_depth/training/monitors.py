"""Modes of early stopping, saved checkpoints and ``ReduceLROnPlateau``, which watch a metric.

By default each looks for the smallest value. The task knows the right direction: an accuracy is
best at its largest.
"""

import math
from collections.abc import Mapping
from typing import Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import ReduceLROnPlateau
from torch import Tensor

from gnn_depth.builder import PartChoice
from gnn_depth.data.checks import SPLITS
from gnn_depth.registry import registered
from gnn_depth.training.tasks import Task

WATCHERS = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau")


def mode_of(monitor: str, task: Task | None = None) -> str | None:
    """The mode that finds the best of a metric, such as ``max`` for ``val/acc``; None if unknown.

    Without a task all registered ones are asked, and must agree.
    """
    split, _, name = monitor.partition("/")
    if split not in SPLITS:
        return None
    tasks: list[Task] = [cls(2) for cls in registered("task").values()]  # all may have two outputs
    if task is not None:
        tasks = [task]
    modes = {each.directions().get(name) for each in tasks} - {None}  # not all have this metric
    if len(modes) != 1:
        return None
    return modes.pop()


def with_modes(chosen: Any) -> Any:
    """Selected callbacks and schedules, with the mode of their metric where none is written.

    Args:
        chosen: A selected part, or a list or dict of them; other values stay.

    Raises:
        MisconfigurationException: One has the wrong mode.
    """
    if isinstance(chosen, list):
        return [with_modes(each) for each in chosen]
    if isinstance(chosen, dict):
        return {key: with_modes(each) for key, each in chosen.items()}
    if not isinstance(chosen, PartChoice):
        return chosen
    # Without its class, which is not imported for --help, the written name has to do.
    names = {chosen.part.class_name}
    names |= {cls.__name__ for cls in getattr(chosen.part.cls, "__mro__", ())}
    given = chosen.options
    if names.isdisjoint(WATCHERS) or not isinstance(given.get("monitor"), str):
        return chosen
    mode = _right_mode(chosen.part.class_name, given["monitor"], given.get("mode"))
    if mode is None or "mode" not in chosen.part.options:
        return chosen
    return PartChoice(chosen.part, {**given, "mode": mode})


def _right_mode(
    watcher: str, monitor: str, mode: str | None, task: Task | None = None
) -> str | None:
    """The mode in which a metric must be watched; None if it is not known.

    Raises:
        MisconfigurationException: The mode is another one, or there is no such metric.
    """
    split, underscore, name = monitor.partition("_")
    if underscore and split in SPLITS:  # as other libraries write it
        raise MisconfigurationException(
            f"{watcher}: there is no metric {monitor!r}. Did you mean '{split}/{name}'?"
        )
    right = mode_of(monitor, task)
    if right is not None and mode not in (None, right):
        better = {"max": "larger", "min": "smaller"}[right]
        raise MisconfigurationException(
            f"{watcher} watches {monitor}, of which {better} is better, in mode {mode!r}: "
            f"use mode {right}."
        )
    return right


def check_mode(watcher: object, task: Task) -> None:
    """Refuse a callback or schedule that takes the worst values of its metric for the best.

    Raises:
        MisconfigurationException: Its mode is the wrong one.
    """
    if not isinstance(watcher, EarlyStopping | ModelCheckpoint | ReduceLROnPlateau):
        return
    if watcher.monitor is not None:
        _right_mode(type(watcher).__name__, watcher.monitor, watcher.mode, task)


def check_defined(trainer: L.Trainer, values: Mapping[str, Tensor], task: Task) -> None:
    """Refuse early stopping by an undefined metric: Lightning would stop as if it diverged.

    Raises:
        MisconfigurationException: One of these values is NaN and watched.
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if not isinstance(callback, EarlyStopping) or callback.monitor not in values:
            continue
        if math.isnan(values[callback.monitor]):
            why = task.undefined(callback.monitor.partition("/")[2])
            raise MisconfigurationException(
                f"EarlyStopping watches {callback.monitor}, which is undefined in epoch "
                f"{trainer.current_epoch + 1}: {why}. Watch another metric, such as val/loss."
            )
