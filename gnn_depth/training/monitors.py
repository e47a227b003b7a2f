"""Modes of early stopping, saved checkpoints and ``ReduceLROnPlateau``, which watch a metric.

By default each looks for the smallest value. The task knows the right direction: an accuracy is
best at its largest.
"""

import math
from collections.abc import Mapping
from typing import Any

import lightning as L
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import EarlyStopping
from torch import Tensor

from gnn_depth.builder import PartChoice
from gnn_depth.data.checks import SPLITS
from gnn_depth.registry import registered
from gnn_depth.training.tasks import Task


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
    if not isinstance(chosen, PartChoice) or "mode" not in chosen.part.options:
        return chosen
    given = chosen.options
    mode = right_mode(chosen.part.class_name, given.get("monitor"), given.get("mode"))
    if mode is None:
        return chosen
    return PartChoice(chosen.part, {"mode": mode, **given})


def right_mode(watcher: str, monitor: Any, mode: Any, task: Task | None = None) -> str | None:
    """The mode that finds the best of a metric, such as ``max`` for ``val/acc``; None if unknown.

    Args:
        watcher: The name of a callback or schedule.
        monitor: The metric that it watches, if any.
        mode: Its mode, if it has one.
        task: The task; without one all registered ones are asked, and must agree.

    Raises:
        MisconfigurationException: The mode is the other one, which takes the worst for the best.
    """
    split, _, name = str(monitor).partition("/")
    if split not in SPLITS:
        return None
    tasks: list[Task] = [cls(2) for cls in registered("task").values()]  # all may have two outputs
    if task is not None:
        tasks = [task]
    modes = {each.directions().get(name) for each in tasks} - {None}  # not all have this metric
    if len(modes) != 1:
        return None
    right = modes.pop()
    if {mode, right} == {"min", "max"}:
        better = {"max": "larger", "min": "smaller"}[str(right)]
        raise MisconfigurationException(
            f"{watcher} watches {monitor}, of which {better} is better, in mode {mode!r}: "
            f"use mode {right}."
        )
    return right


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
