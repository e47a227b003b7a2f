"""Optimizers in their fused form, weight decay of the layers, and learning rate schedules."""

import inspect
from typing import Any

import lightning as L
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.cli import LRSchedulerCallable, OptimizerCallable, ReduceLROnPlateau
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

FUSED = (Adagrad, Adam, AdamW, SGD)
REHEARSED = 10_000  # steps of a schedule that are tried, in less than a second


def rehearse(
    optimizer: OptimizerCallable,
    scheduler: LRSchedulerCallable | None,
    epochs: int | None = None,
) -> None:
    """Take the steps of a training with an optimizer and a schedule of torch, on one weight.

    Some options only fail in a step, and a schedule that is too short in one of its last.

    Args:
        optimizer: Makes the optimizer.
        scheduler: Makes the schedule, which takes a step an epoch.
        epochs: Number of epochs; None if the training has no end.

    Raises:
        MisconfigurationException: One of them fails.
    """
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.zeros(2, 2)
    step = 0
    what = "model.optimizer"
    try:
        made = optimizer([weight])
        if not type(made).__module__.startswith("torch."):
            return
        what = "model.scheduler"
        schedule: Any = scheduler and scheduler(made)
        what = f"model.optimizer {type(made).__name__}"
        made.step(lambda: 0.0)
        if schedule:
            what = f"model.scheduler {type(schedule).__name__}"
            for step in range(1, min(epochs or 1, REHEARSED) + 1):  # noqa: B007
                schedule.step(0.0) if isinstance(schedule, ReduceLROnPlateau) else schedule.step()
    except Exception as error:
        when = f" in epoch {step} of {epochs}" if step > 1 else ""
        raise MisconfigurationException(
            f"{what} fails with these options{when} ({type(error).__name__}: {error})."
        ) from error


def decay_apart(optimizer: Optimizer, layers: set[nn.Parameter], weight_decay: float) -> None:
    """Split every group in two, so that the layers' parameters have a weight decay of their own."""
    if "weight_decay" not in optimizer.defaults:
        raise MisconfigurationException(
            f"layer_weight_decay {weight_decay}: optimizer {type(optimizer).__name__} has no "
            "weight decay. Choose one "
            "that has, such as Adam, AdamW or SGD, or leave layer_weight_decay out."
        )
    groups = []
    for group in optimizer.param_groups:
        ours = [parameter for parameter in group["params"] if parameter in layers]
        others = [parameter for parameter in group["params"] if parameter not in layers]
        groups += [
            group | {"params": ours, "weight_decay": weight_decay},
            group | {"params": others},
        ]
    optimizer.param_groups = [group for group in groups if group["params"]]


def fused(optimizer: Optimizer, trainer: L.Trainer | None) -> Optimizer:
    """The same optimizer in its fused form, if torch has one and the user chose neither ``fused``
    nor ``foreach``.

    It runs a whole step in one kernel, several times faster for deep stacks; its numbers are equal
    up to rounding.
    """
    # In 16-mixed Lightning refuses to clip gradients if the optimizer undoes their scaling itself,
    # as fused ones do.
    clips = trainer is not None and trainer.precision == "16-mixed" and trainer.gradient_clip_val
    if (
        clips
        or type(optimizer) not in FUSED
        or not all(_can_be_fused(group) for group in optimizer.param_groups)
    ):
        return optimizer
    groups = [group | {"fused": True} for group in optimizer.param_groups]
    accepted = inspect.signature(type(optimizer)).parameters
    options = {name: value for name, value in optimizer.defaults.items() if name in accepted}
    return type(optimizer)(groups, **options | {"fused": True})


def _can_be_fused(group: dict[str, Any]) -> bool:
    return (
        group.get("fused") is None
        and group.get("foreach") is None
        and not group.get("differentiable")
        and not group.get("capturable")
        and not isinstance(group["lr"], torch.Tensor)
        and all(
            p.layout == torch.strided
            and p.dtype in (torch.float32, torch.float64)
            and p.device.type in ("cpu", "cuda")
            for p in group["params"]
        )
    )
